-- What the scripts of the books all begin with: functions by short names, and numbers.

local byte, sub, find, match, gmatch, rep = string.byte, string.sub, string.find, string.match, string.gmatch, string.rep
local format, concat, pack, unpack_from = string.format, table.concat, struct.pack, struct.unpack
local call, try, tonumber, type, unpack, KEYS, ARGV = redis.call, redis.pcall, tonumber, type, unpack, KEYS, ARGV

local EXACT = 9007199254740992          -- 2^53
local HOUR_MS, DAY_MS = 3600000, 86400000
local SLACK_MS = 600000                 -- granted on top of a needed time to live, so that not every call must prolong it

local BUCKET, WINDOW, BUDGET = 98, 119, 109             -- 'b', 'w', 'm'

local HEALING = 16                      -- of what cannot be earned, one part in so many pays back what a mirror holds
local YEAR = 31536000000000             -- microseconds until a bucket that never refills is called full

-- Makes sure that a key just written lives at least `need` milliseconds; never shortens its life.
local function keep(key, need)
  if call('PTTL', key) < need then
    call('PEXPIRE', key, format('%d', need + SLACK_MS))
  end
end
