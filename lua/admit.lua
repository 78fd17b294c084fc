-- Decides admissions, each as if the ones before it in this call had been decided in calls of their own: all claims of a request in one
-- step. Read all, check all, write all or (almost) nothing.
--
-- KEYS   in any order: holds of the customers (hash: reservation -> hold record, see claims.lua) and the index of leases (sorted set:
--        customer -> earliest deadline of a hold, or before it), which is one for all, named by their place; before them
--        1..l    what the claims live in (strings)
--        l..m    numbers that must be known: which overrides of a customer are in force, which plans (absent: 0)
-- ARGV   numbers: now in microseconds (0: this server's time), l, m, number of admissions, the limits as call.lua reads them; then for each
--        admission the places of the two numbers (0: need not be known), each as the gateway knows it, and the admission as claims.lua
--        reads it; then the texts of each; then what admit_together.lua reads, which decides them first where all fit
-- Reply  numbers: now; then for each a decision as claims.lua has it; or, where other numbers are in force: -1 and both. Nothing is
--        claimed then. Of what was decided together: as admit_together.lua has it.

-- read all

local head = numbers(4)
local now, values, asked, customers = clock(head[1]), load(head[2], head[3]), {}, {}
read_limits(now)
for i = 1, head[4] do
  local place_of_said, place_of_plans, known_said, known_plans, next = unpack_from('<dddd', packed, behind)
  behind = next
  local a = read_admission()
  if place_of_said > 0 then
    local said, plans = tonumber(values[place_of_said] or 0) or 0, tonumber(values[place_of_plans] or 0) or 0
    if said ~= known_said or plans ~= known_plans then a.stale = { said, plans } end
  end
  asked[i], customers[i] = a, a.customer
end
local indexed = read('ZMSCORE', asked[1].leases, unpack(customers)) or {}

-- check all

answers[1], answered = now, 1
for i = 1, #asked do
  local a = asked[i]
  if a.stale then
    answers[answered + 1], answers[answered + 2], answers[answered + 3] = -1, a.stale[1], a.stale[2]
    answered = answered + 3
  elseif not take_at_once(a, now) then
    decide(a, now)
    take(a, now)
    answer(now)
  end
end

-- write all: what was admitted, or of a refused request only the message it was

write_limits(now)
local written = {}        -- of two of one customer the second goes by what the first has written
for i = 1, #asked do
  local a = asked[i]
  if a.record then written[a.customer] = write_hold(a, written[a.customer] or indexed[i], now) end
end
return packed_answers()
