-- Puts new claims in the place of a reservation: ends that and decides these as if it had ended, in one step. Where they do not pass
-- nothing changes at all, and the reservation stands. The twin of replace in limit/decide.rs.
--
-- KEYS   1..l     what lines and claims live in (strings); behind them, in any order, the keys that the end and the admission name
-- ARGV   packed: now in microseconds (0: this server's time), l; then the old one's end as ends.lua reads it, and an admission of the same
--          customer as claims.lua reads it
-- Reply  a decision as claims.lua packs it. Of an old reservation that was settled before nothing is booked again.

-- read all

local head = numbers()
local now = clock(head[1])
load(head[2], head[2])
local old = read_end()
local asked = read_admission()
read_known(old, now)
read_index(asked)

-- check all

settle(old, now)
decide(asked, now)
take(asked, now)
asked.repaired = asked.repaired + old.repaired
if not asked.admitted then
  asked.repaired = 0      -- nor is anything repaired that was found so
  return decision(asked, now)
end

-- write all

write_states(now)
if not old.over then write_end(old, now) end
write_hold(asked, now)
return decision(asked, now)
