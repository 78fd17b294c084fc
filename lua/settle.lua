-- Ends one reservation: replaces what was claimed by what was used, exactly once. The twin of settle in limit/decide.rs.
--
-- KEYS   1     holds of the customer (hash: reservation -> hold record)
--        2, 3  how reservations of the even and of the odd hours ended (hash: reservation -> end; field `hour`: which hour)
--        4     holds of the customer that a sweeper booked (hash: reservation -> tombstone, see sweep.lua)
--        5..   the hashes the lines live in: first those tagged with the customer, then the shared ones
-- ARGV   now in microseconds (0: this server's time), reservation id, number of lines, then for each:
--          key index, limit, claimed, actual, booked (period start or slot in seconds), forgive ('1' or '0'),
--          'b' capacity gain unit | 'w' limit | 'm' cap and four period starts in seconds
-- Reply  integers: now, and 1: the hold was known, 2: it was not (lost, or admitted in an outage), 0: settled before, nothing done,
--          3: a sweeper had booked it, and what it booked is corrected to what was used
--
-- An end is remembered for one to two hours, longer than anything is replayed. Its first letter says how it came: `s` settled.

local HOUR = 3600000000

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
local hour = floor(now / HOUR)
local ends, earlier_ends = KEYS[2 + hour % 2], KEYS[3 - hour % 2]
local ended = read('HMGET', ends, reservation, 'hour') or {}
local lost = read('HGET', KEYS[4], reservation)
local states = read_states(lines)

-- check all

if not hold and not lost and (ended[1] or read('HGET', earlier_ends, reservation)) then return { now, 0 } end

-- What a sweeper booked, by key, limit and period. The first line of each takes it back.
local swept = {}
for key, limit, start, booked in gmatch(lost or '', PART) do
  local part = concat({ key, limit, start }, ' ')
  swept[part] = (swept[part] or 0) + tonumber(booked)
end

-- A state that a rule of another kind keeps (the plan changed) stays: what there was to correct is gone.
local kept = {}
for _, c in ipairs(lines) do
  local kind = kind_of(states[c.key][c.limit])
  if not kind or kind == c.kind then kept[#kept + 1] = c end
end

for _, c in ipairs(kept) do
  open(c, states, now)
  if c.kind == 'b' then
    c:correct(c.claimed, c.actual, c.forgive)
  elseif c.kind == 'w' then
    c:correct(c.claimed, c.actual, now, c.booked)
  else
    local part = format('%s %s %.0f', KEYS[c.key], c.limit, c.booked)
    local booked = swept[part]
    if booked then
      c:settle(c.booked, 0, c.actual, booked)
      swept[part] = 0
    else
      c:settle(c.booked, hold and c.claimed or 0, c.actual, 0)
    end
  end
  states[c.key][c.limit] = c:pack()     -- a second line of the same limit goes on from here
end

-- write all

write_states(kept, now)
if hold then redis.call('HDEL', KEYS[1], reservation) end
if lost then redis.call('HDEL', KEYS[4], reservation) end
replace_foreign(ends)
-- Two hours ago this hash began; what it remembers is past any replay. (An hour ahead of ours is a clock that was set back.)
local begun = tonumber(ended[2] or nil)
if begun and begun < hour then redis.call('DEL', ends) end
if begun and begun > hour then hour = begun end
redis.call('HSET', ends, reservation, 's', 'hour', format('%.0f', hour))
keep(ends, 2 * HOUR_MS)

return { now, lost and 3 or hold and 1 or 2 }
