-- Writes or removes one document, if what is there is what is expected.
--
-- KEYS   1  the document; or three: `docs`, `order` and `ends` of its listed collection
-- ARGV   now in microseconds (0: this server's time), id, what is expected ('*' anything, '-' nothing, or a version),
--        rank in 16 hexadecimal digits, microseconds until it ends ('-': never), and the value, absent to remove
-- Reply  1 and the version (0: removed); or 0, and version and value of what else was found, if anything

local now, id, expected, rank, span, value = clock(ARGV[1]), ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local listed = KEYS[2] ~= nil

-- read

if listed then sweep(now) end
local stored
if listed then stored = redis.call('HGET', KEYS[1], id) else stored = redis.call('GET', KEYS[1]) end
local found = stored and lives(stored, now) and stored

-- check

if expected ~= '*' then
  if expected == '-' then
    if found then return { 0, version_of(found), value_of(found) } end
  elseif not found then
    return { 0 }
  elseif version_of(found) ~= tonumber(expected) then
    return { 0, version_of(found), value_of(found) }
  end
end

-- write

if listed and stored then remove(id, stored) end
if not value then
  if not listed then redis.call('DEL', KEYS[1]) end
  return { 1, 0 }
end

if not listed then return { 1, write(KEYS[1], stored, now, present(), rank, span, value) } end
local record, ends, version = record_of(stored, now, present(), rank, span, value)
redis.call('HSET', KEYS[1], id, record)
redis.call('ZADD', KEYS[2], 0, rank .. id)
if ends > 0 then redis.call('ZADD', KEYS[3], format('%.0f', ends), id) end
return { 1, version }
