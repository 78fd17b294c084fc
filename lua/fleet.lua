-- A sign of life of one gateway; counts those that live. Also the probe of a store that was away: it writes, as admissions do.
--
-- KEYS   1     the gateways (sorted set: gateway -> second of its last sign of life)
-- ARGV   gateway, seconds of silence after which one counts as gone
-- Reply  integer: how many live, this one included

local now = tonumber(redis.call('TIME')[1])
local patience = tonumber(ARGV[2])
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - patience - 1)
redis.call('EXPIRE', KEYS[1], 4 * patience)
return redis.call('ZCARD', KEYS[1])
