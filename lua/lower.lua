-- Takes back what one reservation has claimed here, all of it or a part, before anything was sent for it. Only in a cluster: the limits
-- that were asked after these refused the request, or granted a smaller output cap.
--
-- KEYS   1     holds of the customer (hash: reservation -> hold record, see claims.lua)
--        2..   the hashes the lines live in
-- ARGV   as of settle.lua; `actual` is what stays claimed
-- Reply  integers: now, then for each line as of claims.lua: used, held, remaining, reset_in in microseconds
--
-- No end is noted: the reservation may claim again, or be settled by whoever goes on without these limits. A budget is lowered only
-- where the hold has that very part, so that repeating it does no harm; buckets and windows are not protected so.

-- read all

local now = clock(number())
local reservation = text()

local lines = {}
for i = 1, number() do
  local c = {}
  c.key, c.limit, c.claimed, c.actual, c.booked, c.forgive = number(), text(), number(), number(), number(), text() == '1'
  rule(c)
  lines[i] = c
end

local hold = read('HGET', KEYS[1], reservation)
local states = read_states(lines)

-- check all

-- Puts `amount` in the place of what the hold record has of this line. Whether it has it.
local function replace(c, amount)
  local head = format('|%s %s %.0f ', KEYS[c.key], c.limit, c.booked)
  local old = head .. format('%.0f|', c.claimed)
  local first, last = string.find((hold or '') .. '|', old, 1, true)
  if not first then return false end
  local new = amount > 0 and head .. format('%.0f', amount) or ''
  hold = string.sub(hold, 1, first - 1) .. new .. string.sub(hold, last)
  return true
end

local reply, kept, held = { now }, {}, hold
for _, c in ipairs(lines) do
  local kind = kind_of(states[c.key][c.limit])
  open(c, states, now)
  if not kind or kind == c.kind then
    if c.kind == 'b' then
      if c.mirrors then c:settle(c.claimed - c.actual, 0) else c:correct(c.claimed, c.actual, c.forgive) end
    elseif c.kind == 'w' then
      c:correct(c.claimed, c.actual, now, c.booked)
    elseif replace(c, c.actual) then
      c:settle(c.booked, c.claimed - c.actual, 0, 0)
    end
    states[c.key][c.limit] = c:pack()
    kept[#kept + 1] = c
  end
  local used, held_now, remaining, reset_in = c:stands(now, 0)
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = used, held_now, remaining, reset_in
end

-- write all

write_states(kept, now)
if held ~= hold then
  if match(hold, '|tg1:') then
    redis.call('HSET', KEYS[1], reservation, hold)
  else
    redis.call('HDEL', KEYS[1], reservation)
  end
end
return reply
