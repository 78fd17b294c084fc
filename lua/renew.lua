-- Prolongs the lease of one hold, and notes what its request has used so far. A provisional hold is confirmed by that.
--
-- KEYS   1     holds of the customer (hash: reservation -> hold record, see claims.lua)
--        2     customers with holds (sorted set: customer -> earliest deadline of a hold, or before it)
-- ARGV   packed: now in microseconds (0: this server's time), lease in microseconds, nano-dollars metered so far (0: not known); then
--          reservation id, customer
-- Reply  1: renewed, 0: there is no such hold (settled, or a sweeper booked it), nothing done

-- read all

local head = numbers(3)
local now, lease, metered = clock(head[1]), head[2], head[3]
local reservation, customer = text(), text()
local hold = read('HGET', KEYS[1], reservation)
local indexed = read('ZSCORE', KEYS[2], customer)

-- check all

local deadline, before, parts = match(hold or '', '^(%d+) ?(%w*)(|.*)$')
if not deadline then return 0 end
deadline = math.max(tonumber(deadline), now + lease)
metered = math.max(metered, tonumber(before) or 0)

-- write all

local noted = metered > 0 and format(' %d', metered) or ''
call('HSET', KEYS[1], reservation, format('%d', deadline) .. noted .. parts)
keep(KEYS[1], math.ceil(lease / 1000) + 2 * DAY_MS)
-- Later deadlines are no news to the index; this is for an index that was lost.
index_hold(KEYS[2], customer, indexed, deadline, now)
return 1
