-- Books the holds of one customer whose lease is over: nobody renews them, so their gateway has died.
--
-- KEYS   1     holds of the customer (hash: reservation -> hold record, see claims.lua)
--        2     customers with holds (sorted set: customer -> earliest deadline of a hold, or before it)
--        3     holds of the customer that a sweeper booked (hash: reservation -> tombstone)
--        4..   budgets that the records name. Who calls does not know them before; on one server they need not be declared
-- ARGV   packed: now in microseconds (0: this server's time), 1: charge or 0: release, most holds to book,
--        1: leave holds alone whose budgets are not declared (a cluster), or 0; then the customer
-- Reply  how many were booked; whether more are due shows in the index
--        then the names of keys that were not declared, some of them: to be declared in the next call
--
-- A provisional hold is given back whatever is charged: nothing was sent before it was confirmed.
-- Charged is the whole hold; of a request whose metered dollars are known, twice those where that is less. What was metered is at most
-- a lease old, and the gateway reports it only once the request has run for as long as it may go on unseen.
-- Buckets and windows stay as claimed: they refill by themselves.
--
-- Tombstone: x|<key> <limit> <period start> <booked>|...   With it a settlement that comes late corrects what was booked here. It
-- stays for a week after the customer's last lost hold, longer than settlements wait in a gateway's journal.

local WEEK_MS = 7 * DAY_MS

-- read all

local head = numbers(4)
local now, charges, most, strict, customer = clock(head[1]), head[2] == 1, head[3], head[4] == 1, text()

local declared, missing = {}, {}
for i = 4, #KEYS do declared[KEYS[i]] = true end
local function is_declared(parts)
  local all = true
  for key in gmatch(parts, PART) do
    if declared[key] == nil and #missing < 64 then
      declared[key] = false
      missing[#missing + 1] = key
    end
    all = all and declared[key]
  end
  return all
end

local due, earliest = {}, nil
local records = read('HGETALL', KEYS[1]) or {}
for i = 1, #records, 2 do
  local deadline, mark, parts = match(records[i + 1], '^(%d+) ?(%w*)(|.*)$')
  deadline = tonumber(deadline or nil)
  if deadline and deadline <= now and (not strict or is_declared(parts)) then
    due[#due + 1] = { reservation = records[i], deadline = deadline, metered = tonumber(mark), parts = parts, sent = mark ~= 'p' }
  elseif deadline then
    earliest = math.min(earliest or deadline, deadline)
  end
end
table.sort(due, function(a, b)
  if a.deadline ~= b.deadline then return a.deadline < b.deadline end
  return a.reservation < b.reservation
end)
for i = #due, most + 1, -1 do
  earliest = due[i].deadline
  due[i] = nil
end

-- The state of a budget in a record, and the place of its key; false where there is none.
local function budget_of(key, name)
  local place, limit = place_of(key), limit_named(name)
  local s = limit and stored[place][limit]
  return s and s[2] == BUDGET and s, place
end
for _, hold in ipairs(due) do
  for key, limit in gmatch(hold.parts, PART) do budget_of(key, limit) end
end
read('HEXISTS', KEYS[3], '')
read('ZSCORE', KEYS[2], customer)

-- check all

local ended, tombstones = {}, {}
for _, hold in ipairs(due) do
  local tombstone = { 'x' }
  for key, limit, start, amount in gmatch(hold.parts, PART) do
    amount = tonumber(amount)
    local booked = charges and hold.sent and amount or 0
    if charges and hold.metered and match(limit, '^spend_') then booked = math.min(2 * hold.metered, amount) end
    -- A period that is no longer known takes nothing, neither now nor from a late settlement.
    local s, place = budget_of(key, limit)
    if s and settle_budget(s, 3, tonumber(start), amount, booked, 0) then
      put(place, s, 0)          -- known, so its key is there and keeps its time to live
    else
      booked = 0
    end
    tombstone[#tombstone + 1] = format('|%s %s %s %d', key, limit, start, booked)
  end
  ended[#ended + 1] = hold.reservation
  tombstones[#tombstones + 1] = hold.reservation
  tombstones[#tombstones + 1] = concat(tombstone)
end

-- write all

write_states(now)
if #ended > 0 then
  call('HDEL', KEYS[1], unpack(ended))
  replace_foreign(KEYS[3])
  call('HSET', KEYS[3], unpack(tombstones))
  keep(KEYS[3], WEEK_MS)
end
replace_foreign(KEYS[2])
if earliest then
  call('ZADD', KEYS[2], format('%d', earliest), customer)
  keep(KEYS[2], math.max(math.ceil((earliest - now) / 1000), 0) + 2 * DAY_MS)
else
  call('ZREM', KEYS[2], customer)
end

return { #ended, unpack(missing) }
