-- Takes back what one reservation has claimed here, all of it or a part, before anything was sent for it. Only in a cluster: the limits
-- that were asked after these refused the request, or granted a smaller output cap.
--
-- KEYS   1..l     what the lines live in (strings); behind them the keys that the end names by their place
-- ARGV   numbers: now in microseconds (0: this server's time), l, the limits as call.lua reads them, an end as ends.lua reads it, where
--          `actual` is what stays claimed; then its texts
-- Reply  numbers, for each line as of claims.lua: used, held, remaining, reset_in in microseconds
--
-- No end is noted: the reservation may claim again, or be settled by whoever goes on without these limits. A budget is lowered only
-- where the hold has that very part, so that repeating it does no harm; buckets and windows are not protected so.

-- read all

local head = numbers(2)
local now = clock(head[1])
load(head[2], head[2])
read_limits(now)
local lowered = read_end()
local hold = read('HGET', lowered.holds, lowered.reservation)

-- check all

-- Puts `amount` in the place of what the hold record has of a part. Whether it has it.
local function replace(part, claimed, amount)
  local start = '|' .. part .. ' '
  local first, last = find((hold or '') .. '|', start .. format('%d|', claimed), 1, true)
  if not first then return false end
  hold = sub(hold, 1, first - 1) .. (amount > 0 and start .. format('%d', amount) or '') .. sub(hold, last)
  return true
end

local lines, held_before = lowered.lines, hold
for i = 1, 4 * lowered.count, 4 do
  local limit, claimed, actual, booked = limits[lines[i]], lines[i + 1], lines[i + 2], lines[i + 3]
  local rule = limit[3]
  local kind = rule[1]
  if limit[4] == CLOSED or twins then open(limit, now) end
  local goes = not limit[5]
  if goes then limit[4] = CHANGED end
  local used, held, remaining, reset_in = 0, 0, 0, 0
  if kind == BUCKET then
    local gain, unit, full = rule[7], rule[8], rule[10]
    if goes and rule[9] == 1 then
      limit[6], limit[8] = settled_mirror(limit[6], limit[8], full, unit, claimed - actual, 0)
    elseif goes then
      limit[6] = corrected(limit[6], full, unit, claimed, actual, rule[5] == 1)
    end
    local level = limit[6]
    used, remaining, reset_in = math.ceil((full - level) / unit), math.floor(math.max(level, 0) / unit), full_in(level, full, gain)
    if reset_in > 0 then reset_in = reset_in + math.max(limit[7] - now, 0) end
  elseif kind == WINDOW then
    if goes then correct_slots(limit[6], limit[7], claimed, actual, now, booked) end
    used, reset_in = sum_at(limit[6], limit[7], math.floor(now / 1000000)), empty_in(limit[6], now)
    remaining = math.max(rule[6] - used, 0)
  else
    if goes and replace(format('%s %s %d', KEYS[limit[1]], LIMITS[limit[2]], booked), claimed, actual) then
      settle_budget(limit, 6, booked, claimed - actual, 0, 0)
    end
    used, held = limit[7], limit[8]
    remaining, reset_in = math.max(rule[6] - (used + held), 0), math.max(rule[12] * 1000000 - now, 0)
  end
  if twins and goes then close(limit, now) end
  answers[answered + 1], answers[answered + 2], answers[answered + 3], answers[answered + 4] = used, held, remaining, reset_in
  answered = answered + 4
end

-- write all

write_limits(now)
if held_before ~= hold then
  if match(hold, '|tg1:') then
    call('HSET', lowered.holds, lowered.reservation, hold)
  else
    call('HDEL', lowered.holds, lowered.reservation)
  end
end
return packed_answers()
