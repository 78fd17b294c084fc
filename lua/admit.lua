-- Decides admissions, each as if the ones before it in this call had been decided in calls of their own: all claims of a request in one
-- step. Read all, check all, write all or (almost) nothing.
--
-- KEYS   in any order: holds of the customers (hash: reservation -> hold record, see claims.lua) and the index of leases (sorted set:
--        customer -> earliest deadline of a hold, or before it), which is one for all, named by their place; before them
--        1..l    what the claims live in (strings)
--        l..m    numbers that must be known: which overrides of a customer are in force, which plans (absent: 0)
-- ARGV   packed: now in microseconds (0: this server's time), l, m, number of admissions; then for each of them
--        packed: the places of the two numbers (0: need not be known), and each as the gateway knows it
--        an admission as claims.lua reads it
-- Reply  for each a decision as claims.lua packs it; or, where other numbers are in force, packed: -1 and both. Nothing is claimed then.

-- read all

local head = numbers()
local now, values, asked, customers = clock(head[1]), load(head[2], head[3]), {}, {}
for i = 1, head[4] do
  local known = numbers()
  local a = read_admission()
  if known[1] > 0 then
    local said, plans = tonumber(values[known[1]] or 0) or 0, tonumber(values[known[2]] or 0) or 0
    if said ~= known[3] or plans ~= known[4] then a.stale = pack('<ddd', -1, said, plans) end
  end
  asked[i], customers[i] = a, a.customer
end
local indexed = read('ZMSCORE', asked[1].leases, unpack(customers)) or {}

-- check all

local replies = {}
for i, a in ipairs(asked) do
  if a.stale then
    replies[i] = a.stale
  else
    decide(a, now)
    take(a, now)
    replies[i] = decision(a, now)
  end
end

-- write all: what was admitted, or of a refused request only the message it was

write_states(now)
local written = {}        -- of two of one customer the second goes by what the first has written
for i, a in ipairs(asked) do
  if not a.stale then
    a.indexed = written[a.customer] or indexed[i]
    write_hold(a, now)
    written[a.customer] = a.indexed
  end
end
return replies
