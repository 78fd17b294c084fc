-- Decides admissions that all fit at once as they were asked; see together.lua, and admit.lua for the call.
--
-- Numbers of its own, in front of the sorts: now in microseconds (0: this server's time), l and m as in KEYS, number of admissions, place
--   of the index of leases, lease in microseconds (that of all), 1 where their holds are provisional, number of sorts; of each admission
--   the place of the customer's holds; of the keys from l to m the number that each must have. The texts in front of them are, of each
--   admission, what its hold record has behind the deadline ('': it holds nothing).
-- Reply  numbers: now, 3, and how each limit stands after all of them, in the order in which they were told

if sums == '' then return one_by_one() end

local now, last, more, asked, leases, lease, provisional, sorts, at = unpack_from('<dddddddd', sums)
if now == 0 then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
local values = more > 0 and call('MGET', unpack(KEYS, 1, more)) or {}
local places = { unpack_from('<' .. rep('d', asked + more - last), sums, at) }
for i = last + 1, more do
  local value = values[i]
  if (value and tonumber(value) or 0) ~= places[asked + i - last] then return one_by_one(values) end
end
sorts, at = read_sorts(sorts, places[asked + more - last + 1], now)
local answers = { now, 3 }
local answered = change_limits(values, sorts, at, now, true, answers)
if not answered then return one_by_one(values) end

-- Holds are written first: one that is there already grows, which is for `one_by_one`. (So is a key of another type.)
local deadline, texts = format('%d', now + lease), 1 + 2 * asked
local begins = provisional == 1 and deadline .. ' p' or deadline
local index, indexed, kept_for = { 'LT', 'CH' }, 2, format('%d', lease / 1000 + 2 * DAY_MS + SLACK_MS)
for i = 1, asked do
  local record = ARGV[texts + i]
  if record ~= '' then
    if try('HSETNX', KEYS[places[i]], ARGV[2 * i], begins .. record) ~= 1 then
      for j = 1, i - 1 do
        if ARGV[texts + j] ~= '' then call('HDEL', KEYS[places[j]], ARGV[2 * j]) end
      end
      return one_by_one(values)
    end
    index[indexed + 1], index[indexed + 2] = deadline, ARGV[2 * i + 1]
    indexed = indexed + 2
  end
end
if indexed > 2 then
  -- A sweeper looks at each of them no later than at the deadline.
  local leases_in = KEYS[leases]
  local added = try('ZADD', leases_in, unpack(index))
  if type(added) == 'table' then
    -- Of another type.
    call('DEL', leases_in)
    added = call('ZADD', leases_in, unpack(index))
  end
  if added > 0 then keep(leases_in, lease / 1000 + 2 * DAY_MS) end
  local kept = {}
  for i = 1, asked do
    local holds = places[i]
    if ARGV[texts + i] ~= '' and not kept[holds] then
      kept[holds] = true
      call('PEXPIRE', KEYS[holds], kept_for)
    end
  end
end
write_changed(now)
return pack('<' .. rep('d', answered), unpack(answers, 1, answered))
