-- What is stored of one budget, and what the reservations in flight hold of it, seen at one moment. Reads only.
--
-- KEYS   1     what the budget lives in (see states.lua)
--        2     customers with holds (sorted set), where the next argument names their holds; else unused
--        3..   holds (hashes: reservation -> hold record, see claims.lua)
-- ARGV   limit, then what stands before and after a customer in the name of their holds ('' and '': only KEYS 3.. are looked at)
-- Reply  what is stored (or false), then period start and sum of the holds, again and again, as text
--
-- What all share is held by any number of customers. They are found in here, by the index, since between two calls there would be more
-- of them; all lie beside the budget, under its tag.

local PART = '|(tg1:%S+) (%S+) (%d+) (%d+)'
local limit, before, after = ARGV[1], ARGV[2], ARGV[3]

local seen, sums, starts = {}, {}, {}
local function add(key)
  if seen[key] then return end
  seen[key] = true
  local records = redis.pcall('HVALS', key)
  if records.err then return end      -- of another type: none of ours
  for _, record in ipairs(records) do
    for hash, name, start, amount in string.gmatch(record, PART) do
      if hash == KEYS[1] and name == limit then
        if not sums[start] then
          sums[start] = 0
          starts[#starts + 1] = start
        end
        sums[start] = sums[start] + tonumber(amount)
      end
    end
  end
end

for i = 3, #KEYS do add(KEYS[i]) end
if before ~= '' then
  for _, customer in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do add(before .. customer .. after) end
end

local stored = redis.pcall('GET', KEYS[1])
local reply = { type(stored) == 'string' and stored }
for _, start in ipairs(starts) do
  reply[#reply + 1] = start
  reply[#reply + 1] = string.format('%.0f', sums[start])
end
return reply
