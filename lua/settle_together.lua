-- Ends reservations whose holds are all as their gateway knows them and that end for the first time; see together.lua, and settle.lua for
-- the call. Their rates were charged.
--
-- Numbers of its own, in front of the sorts: now in microseconds (0: this server's time), l as in KEYS, number of ends, number of sorts; of
--   each end the places of three keys as in ends.lua.
-- Reply  numbers: 5, and of each budget, in the order in which they were told, what is spent of it after all of them, and the generation

if sums == '' then return one_by_one() end

local now, last, ended, sorts, at = unpack_from('<dddd', sums)
if now == 0 then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
local places = { unpack_from('<' .. rep('d', 3 * ended), sums, at) }
-- Ends of reservations that were made in one moment lie together: the places of their hashes, and by those what is looked for there.
local moments, sought_in = {}, {}
for i = 1, ended do
  local j, reservation, as_claimed = 3 * i - 2, ARGV[3 * i - 1], ARGV[3 * i + 1]
  local hold, ends = try('HGET', KEYS[places[j]], reservation), places[j + 1]
  if type(hold) == 'string' then
    -- Behind the first bar of the record, and with it, is what was claimed.
    local from = #hold - #as_claimed
    if find(hold, '|', 1, true) ~= from + 1 or not find(hold, as_claimed, from + 1, true) then return one_by_one() end
  elseif hold or as_claimed ~= '' or try('HEXISTS', KEYS[places[j + 2]], reservation) ~= 0 then
    return one_by_one()
  end
  local shorts = sought_in[ends]
  if shorts then
    shorts[#shorts + 1] = ARGV[3 * i]
  else
    moments[#moments + 1], sought_in[ends] = ends, { ARGV[3 * i] }
  end
end
for i = 1, #moments do
  local shorts = sought_in[moments[i]]
  local known = try('HMGET', KEYS[moments[i]], unpack(shorts))
  for j = 1, #shorts do
    if known[j] ~= false then return one_by_one() end           -- known, or of another type
  end
end

local values = last > 0 and call('MGET', unpack(KEYS, 1, last)) or {}
sorts, at = read_sorts(sorts, places[3 * ended + 1], now)
local answers = { 5 }
local answered = change_limits(values, sorts, at, now, false, answers)
if not answered then return one_by_one(values) end

write_changed(now)
for i = 1, ended do
  if ARGV[3 * i + 1] ~= '' then call('HDEL', KEYS[places[3 * i - 2]], ARGV[3 * i - 1]) end
end
for i = 1, #moments do
  local shorts, ends, noted = sought_in[moments[i]], KEYS[moments[i]], {}
  for j = 1, #shorts do noted[2 * j - 1], noted[2 * j] = shorts[j], 's' end
  call('HSET', ends, unpack(noted))
  keep(ends, HOUR_MS)
end
return pack('<' .. rep('d', answered), unpack(answers, 1, answered))
