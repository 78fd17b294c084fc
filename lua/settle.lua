-- Ends reservations, each as if the ones before it in this call had been ended in calls of their own: replaces what was claimed by what
-- was used, exactly once.
--
-- KEYS   1..l     what the lines live in (strings); behind them, in any order, the keys that the ends name by their place, see ends.lua
-- ARGV   numbers: now in microseconds (0: this server's time), l, number of ends, the limits as call.lua reads them, each end as ends.lua
--          reads it; then the texts of each; then what settle_together.lua reads, which ends them first where nothing is unusual
-- Reply  numbers, for each: 1: the hold was known, 2: it was not (lost, or admitted in an outage), 0: settled before, nothing booked
--          (what it held again is given back), 4: the same, and its hold was not known then, 3: a sweeper had booked it, and what it
--          booked is corrected to what was used; then, unless 0 or 4, how many budgets were repaired, and for each budget line what is
--          spent in its period, and the generation (0, 0 where that is not known any more). Of what was ended together: as
--          settle_together.lua has it.

-- read all

local head = numbers(3)
local now, ended = clock(head[1]), {}
load(head[2], head[2])
read_limits(now)
local twice, like = {}, {}
for i = 1, head[3] do
  local e = read_end()
  local first = twice[e.reservation]
  if first then
    like[i] = first
  else
    twice[e.reservation] = e
    read_known(e)
  end
  ended[i] = e
end

-- check all

for i = 1, #ended do
  local e = ended[i]
  local first = like[i] or e
  local letter = first.again
  if like[i] then letter = letter or (first.charged and 's' or 'u') end
  answered = answered + 1
  answers[answered] = letter and (letter == 'u' and 4 or 0) or e.lost and 3 or e.hold and 1 or 2
  local last = answered
  if not like[i] and not e.over then settle(e, now) end
  if letter then answered = last end
end

-- write all

write_limits(now)
for i = 1, #ended do
  local e = ended[i]
  if not like[i] and not e.over then write_end(e) end
end
return packed_answers()
