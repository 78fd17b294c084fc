-- Ends one reservation: replaces what was claimed by what was used, exactly once.
--
-- KEYS   1..4  what is known of the reservation, see ends.lua
--        5..   the hashes the lines live in: first those tagged with the customer, then the shared ones
-- ARGV   now in microseconds (0: this server's time), '1': rates were charged as far as is known, '0': they may not have been (a
--          cluster: the other group of books has the budgets, and did not know the hold), then an end as ends.lua reads it
-- Reply  integers: now, and 1: the hold was known, 2: it was not (lost, or admitted in an outage), 0: settled before, nothing booked
--          (what it held again is given back), 4: the same, and its hold was not known then, 3: a sweeper had booked it, and what it
--          booked is corrected to what was used; then, unless 0 or 4, how many budgets were repaired, and for each budget line what is
--          spent in its period, and the generation (0, 0 where that is not known any more)

-- read all

local now = clock(number())
local charged = text() == '1'
local ended = read_end()
read_known(ended, now)
ended.charged = ended.charged and charged
local states = read_states(ended.lines)

-- check all

local before = ended.again == 'u' and 4 or 0
if ended.over then return { now, before } end
local kept = settle(ended, states, now)

-- write all

write_states(kept, now)
write_end(ended)
if ended.again then return { now, before } end
local reply = { now, ended.lost and 3 or ended.hold and 1 or 2, repaired }
for _, c in ipairs(ended.lines) do
  -- Lines that were only given back are none of the caller's.
  if c.kind == 'm' and c.bounds then
    local n = #reply
    reply[n + 1], reply[n + 2] = c.spent or 0, c.spent and c.generation or 0
  end
end
return reply
