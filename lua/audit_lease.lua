-- Whether a sweeper will look at the holds of one customer in time, seen at one moment. Reads only.
--
-- KEYS   1     holds of the customer (hash: reservation -> hold record, see claims.lua)
--        2     customers with holds (sorted set: customer -> earliest deadline of a hold, or before it)
-- ARGV   customer
-- Reply  text: the earliest deadline of a hold (false: there are no holds), and when a sweeper looks (false: never), microseconds

local earliest
for _, record in ipairs(redis.call('HVALS', KEYS[1])) do
  local deadline = tonumber(string.match(record, '^(%d+)') or nil)
  if deadline then earliest = math.min(earliest or deadline, deadline) end
end
local looks = redis.call('ZSCORE', KEYS[2], ARGV[1])
return { earliest and string.format('%.0f', earliest) or false, looks and string.format('%.0f', looks) or false }
