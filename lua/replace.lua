-- Puts new claims in the place of a reservation: ends that and decides these as if it had ended, in one step. Where they do not pass
-- nothing changes at all, and the reservation stands. The twin of replace in limit/decide.rs.
--
-- KEYS   1..4  what is known of the old reservation, see ends.lua
--        5     customers with holds (sorted set: customer -> earliest deadline of a hold, or before it)
--        6..   the hashes that lines and claims live in: first those tagged with the customer, then the shared ones
-- ARGV   now in microseconds (0: this server's time), the old one's end as ends.lua reads it, then an admission of the same customer as
--          claims.lua reads it
-- Reply  integers: a decision as claims.lua gives it. Of an old reservation that was settled before nothing is booked again.

-- read all

local now = clock(number())
local old = read_end()
local asked = read_admission()
read_known(old, now)
read_hold(asked, KEYS[5])
local both = {}
for _, c in ipairs(old.lines) do both[#both + 1] = c end
for _, c in ipairs(asked.claims) do both[#both + 1] = c end
local states = read_states(both)

-- check all

local written = settle(old, states, now)
decide(asked, states, now)
-- After the lines, so that of two for one limit the claim stays, which was decided over what the line had left.
for _, c in ipairs(take(asked, now)) do written[#written + 1] = c end
if not asked.admitted then
  repaired = 0      -- nor is anything repaired that was found so
  return decision(asked, now)
end

-- write all

write_states(written, now)
if not old.over then write_end(old) end
write_hold(asked, now)
return decision(asked, now)
