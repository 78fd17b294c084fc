-- Ends reservations, each as if the ones before it in this call had been ended in calls of their own: replaces what was claimed by what
-- was used, exactly once.
--
-- KEYS   1..l     what the lines live in (strings); behind them, in any order, the keys that the ends name by their place, see ends.lua
-- ARGV   packed: now in microseconds (0: this server's time), l, number of ends; then each of them as ends.lua reads it
-- Reply  for each, packed: 1: the hold was known, 2: it was not (lost, or admitted in an outage), 0: settled before, nothing booked
--          (what it held again is given back), 4: the same, and its hold was not known then, 3: a sweeper had booked it, and what it
--          booked is corrected to what was used; then, unless 0 or 4, how many budgets were repaired, and for each budget line what is
--          spent in its period, and the generation (0, 0 where that is not known any more)

-- read all

local head = numbers()
local now, ended = clock(head[1]), {}
load(head[2], head[2])
local twice = {}
for i = 1, head[3] do
  local e = read_end()
  if twice[e.reservation] then
    e.like = twice[e.reservation]
  else
    twice[e.reservation] = e
    read_known(e, now)
  end
  ended[i] = e
end

-- check all

for _, e in ipairs(ended) do
  if not e.like and not e.over then settle(e, now) end
end

-- write all

write_states(now)
local replies = {}
for i, e in ipairs(ended) do
  local first = e.like or e
  local letter = first.again
  if e.like then letter = letter or (first.charged and 's' or 'u') end
  if not e.like and not e.over then write_end(e, now) end
  if letter then
    replies[i] = pack('<d', letter == 'u' and 4 or 0)
  else
    local reply = { pack('<dd', e.lost and 3 or e.hold and 1 or 2, e.repaired) }
    for j, left in ipairs(e.left) do reply[j + 1] = pack('<dd', left[1], left[2]) end
    replies[i] = concat(reply)
  end
end
return replies
