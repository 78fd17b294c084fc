-- Ends reservations whose holds are all as their gateway knows them and that end for the first time; see together.lua, and settle.lua for
-- the call. Their rates were charged.
--
-- Numbers of its own, in front of the sorts: now in microseconds (0: this server's time), l as in KEYS, number of ends, number of sorts; of
--   each end the places of four keys as in ends.lua.
-- Reply  numbers: 5, and of each budget, in the order in which they were told, what is spent of it after all of them, and the generation

if sums == '' then return one_by_one() end

local now, last, ended, sorts, at = unpack_from('<dddd', sums)
if now == 0 then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
local hour = now / 3600000000
hour = hour - hour % 1
local odd = hour % 2
local begun = {}                    -- which hashes of ends are of this hour
local places = { unpack_from('<' .. rep('d', 4 * ended), sums, at) }
for i = 1, ended do
  local j, reservation, short, as_claimed = 4 * i - 3, ARGV[3 * i - 1], ARGV[3 * i], ARGV[3 * i + 1]
  local holds, ends, ends_before = KEYS[places[j]], KEYS[places[j + 1 + odd]], KEYS[places[j + 2 - odd]]
  local hold = try('HGET', holds, reservation)
  if type(hold) == 'string' then
    -- Behind the first bar of the record, and with it, is what was claimed.
    local from = #hold - #as_claimed
    if find(hold, '|', 1, true) ~= from + 1 or not find(hold, as_claimed, from + 1, true) then return one_by_one() end
  elseif hold or as_claimed ~= '' or try('HEXISTS', KEYS[places[j + 3]], reservation) ~= 0 then
    return one_by_one()
  end
  local known = try('HMGET', ends, short, 'hour')
  if known[1] ~= false or try('HGET', ends_before, short) then return one_by_one() end
  begun[i] = tonumber(known[2] or nil)
  if begun[i] and begun[i] > hour then return one_by_one() end
end

local values = last > 0 and call('MGET', unpack(KEYS, 1, last)) or {}
sorts, at = read_sorts(sorts, places[4 * ended + 1], now)
local answers = { 5 }
local answered = change_limits(values, sorts, at, now, false, answers)
if not answered then return one_by_one(values) end

write_changed(now)
for i = 1, ended do
  local j, short, since = 4 * i - 3, ARGV[3 * i], begun[i]
  local ends = KEYS[places[j + 1 + odd]]
  if ARGV[3 * i + 1] ~= '' then call('HDEL', KEYS[places[j]], ARGV[3 * i - 1]) end
  if since == hour or begun[ends] then
    call('HSET', ends, short, 's')
  else
    -- As write_end does it.
    begun[ends] = true
    if since then call('DEL', ends) end
    call('HSET', ends, short, 's', 'hour', format('%d', hour))
    call('PEXPIRE', ends, format('%d', ((hour + 1) * 3600000000 - now) / 1000 + 2 * HOUR_MS))
  end
end
return pack('<' .. rep('d', answered), unpack(answers, 1, answered))
