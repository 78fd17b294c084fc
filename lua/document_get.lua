-- Reads one document.
--
-- KEYS   1  the document, or the `docs` of its collection
-- ARGV   now in microseconds (0: this server's time), '1' if the collection is listed, id
-- Reply  version and value; nothing when there is none, or it has ended

local record
if ARGV[2] == '1' then record = redis.call('HGET', KEYS[1], ARGV[3]) else record = redis.call('GET', KEYS[1]) end
if not record or not lives(record, clock(ARGV[1])) then return {} end
return { version_of(record), value_of(record) }
