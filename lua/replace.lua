-- Puts new claims in the place of a reservation: ends that and decides these as if it had ended, in one step. Where they do not pass
-- nothing changes at all, and the reservation stands. The twin of replace in limit/decide.rs.
--
-- KEYS   1..l     what lines and claims live in (strings); behind them, in any order, the keys that the end and the admission name
-- ARGV   numbers: now in microseconds (0: this server's time), l, the limits as call.lua reads them, the old one's end as ends.lua reads it,
--          an admission of the same customer as claims.lua reads it; then the texts of both
-- Reply  numbers: now, and a decision as claims.lua has it. Of an old reservation that was settled before nothing is booked again.

-- read all

local head = numbers(2)
local now = clock(head[1])
load(head[2], head[2])
read_limits(now)
local old = read_end()
local asked = read_admission()
read_known(old)
local indexed = read('ZSCORE', asked.leases, asked.customer)

-- check all

settle(old, now)
decide(asked, now)
take(asked, now)
-- Of a refusal nothing is kept, nor is anything repaired that was found so.
repaired = admitted and repaired + old.repaired or 0
answers[1], answered = now, 1
answer(now)
if not admitted then return packed_answers() end

-- write all

write_limits(now)
if not old.over then write_end(old) end
if asked.record then write_hold(asked, indexed, now) end
return packed_answers()
