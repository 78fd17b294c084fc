-- Adds to rows of one day and shard, once however often it is sent.
--
-- KEYS   1  hash: the last batch of each gateway
--        2.. rows (hashes of counters), then minutes (hashes: counter and row -> sum of that minute)
-- ARGV   gateway, number of the batch, number of rows, seconds to keep batches and minutes, the counter whose value is told;
--        then for each row: seconds to keep it, number of sums, number of peaks,
--          for each sum:  counter, amount
--          for each peak: counter, index of its minute among KEYS, member of that hash, amount
-- Reply  for each row the value of that counter, as text ('0' where there is none)
--
-- Amounts are integers below 2^63 and stay text: a Lua number would lose digits above 2^53. Peaks are compared as numbers; they are
-- tokens of a minute at most.

local gateway, number, rows, keep, told = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], ARGV[5]

-- read

local last = redis.call('HGET', KEYS[1], gateway)
local fresh = not last or tonumber(last) < number

-- write

local at = 6
local function next_arg()
  at = at + 1
  return ARGV[at - 1]
end

local reply = {}
for n = 1, rows do
  local key = KEYS[n + 1]
  local lasts, sums, peaks = next_arg(), tonumber(next_arg()), tonumber(next_arg())
  for _ = 1, sums do
    local counter, amount = next_arg(), next_arg()
    if fresh then redis.call('HINCRBY', key, counter, amount) end
  end
  for _ = 1, peaks do
    local counter, minute, member, amount = next_arg(), KEYS[tonumber(next_arg())], next_arg(), next_arg()
    if fresh then
      local sum = redis.call('HINCRBY', minute, member, amount)
      redis.call('EXPIRE', minute, keep)
      local most = redis.call('HGET', key, counter)
      if not most or tonumber(most) < sum then
        redis.call('HSET', key, counter, string.format('%.0f', sum))
      end
    end
  end
  if fresh then redis.call('EXPIRE', key, lasts) end
  reply[n] = redis.call('HGET', key, told) or '0'
end
if fresh then
  redis.call('HSET', KEYS[1], gateway, ARGV[2])
  redis.call('EXPIRE', KEYS[1], keep)
end
return reply
