-- Takes back what one reservation has claimed here, all of it or a part, before anything was sent for it. Only in a cluster: the limits
-- that were asked after these refused the request, or granted a smaller output cap.
--
-- KEYS   1..l     what the lines live in (strings); behind them the keys that the end names by their place
-- ARGV   packed: now in microseconds (0: this server's time), l; then an end as ends.lua reads it; `actual` is what stays claimed
-- Reply  packed, for each line as of claims.lua: used, held, remaining, reset_in in microseconds
--
-- No end is noted: the reservation may claim again, or be settled by whoever goes on without these limits. A budget is lowered only
-- where the hold has that very part, so that repeating it does no harm; buckets and windows are not protected so.

-- read all

local head = numbers()
local now = clock(head[1])
load(head[2], head[2])
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

local n, i, reply, held_before = lowered.n, FIRST_LINE, {}, hold
for j = 1, lowered.lines do
  local key, limit, kind, claimed, actual, booked = n[i], n[i + 1], n[i + 2], n[i + 3], n[i + 4], n[i + 5]
  local s = stored[key][limit]
  local goes = not s or s[2] == kind
  local used, held, remaining, reset_in = 0, 0, 0, 0
  if kind == BUCKET then
    local gain, unit = n[i + 8], n[i + 9]
    local full = n[i + 7] * unit
    local level, at, mirrored = open_bucket(s, full, gain, unit, now)
    if goes then
      if n[i + 10] == 1 then
        level, mirrored = settled_mirror(level, mirrored, full, unit, claimed - actual, 0)
      else
        level = corrected(level, full, unit, claimed, actual, n[i + 6] == 1)
      end
      put_bucket(key, limit, level, at, mirrored, full, gain, unit)
    end
    used, remaining, reset_in = math.ceil((full - level) / unit), math.floor(math.max(level, 0) / unit), full_in(level, full, gain)
    if reset_in > 0 then reset_in = reset_in + math.max(at - now, 0) end
  elseif kind == WINDOW then
    local seconds, amounts, at = open_window(s, now)
    if goes then
      correct_slots(seconds, amounts, claimed, actual, now, booked)
      put_window(key, limit, seconds, amounts, at, now)
    end
    used, reset_in = sum_at(seconds, amounts, math.floor(now / 1000000)), empty_in(seconds, now)
    remaining = math.max(n[i + 7] - used, 0)
  else
    local start, spent, in_flight, start_before, spent_before, held_then, generation, ends = open_budget(s, n, i, now)
    if goes then
      s = put_budget(key, limit, start, spent, in_flight, start_before, spent_before, held_then, generation, ends, now)
      if replace(format('%s %s %d', KEYS[key], LIMITS[limit], booked), claimed, actual) then
        settle_budget(s, booked, claimed - actual, 0, 0)
      end
      spent, in_flight = s[4], s[5]
    end
    used, held, remaining = spent, in_flight, math.max(n[i + 7] - (spent + in_flight), 0)
    reset_in = math.max(ends * 1000000 - now, 0)
  end
  reply[j] = pack('<dddd', used, held, remaining, reset_in)
  i = i + LENGTH[kind]
end

-- write all

write_states(now)
if held_before ~= hold then
  if match(hold, '|tg1:') then
    redis.call('HSET', lowered.holds, lowered.reservation, hold)
  else
    redis.call('HDEL', lowered.holds, lowered.reservation)
  end
end
return concat(reply)
