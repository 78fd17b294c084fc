-- What the scripts of documents share: document_get.lua, document_put.lua, document_list.lua. Each is loaded with this in front of it.
--
-- A record is <version> <until> <rank> <value> without anything between: 16 decimal digits, 16 decimal digits (microseconds; 0 = for
-- ever), 16 hexadecimal digits, bytes. One document of a collection that is not listed is a string key with a time to live. A listed
-- collection has three keys under one tag, so that a write of a document and of its place is one step:
--   docs    hash: id -> record
--   order   sorted set without scores: rank and id, so that its order is theirs
--   ends    sorted set: id by the microsecond at which its document ends
-- Numbers are integers below 2^53, which doubles hold exactly; a rank may be larger and stays text.

local format, sub = string.format, string.sub

local HEAD = 48
local SWEPT = 16                        -- ended documents removed per call of a listed collection

-- This server's own time in microseconds.
local function present()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000000 + tonumber(time[2])
end

-- The present: what a test passed in (not zero), otherwise this server's.
local function clock(given)
  given = tonumber(given)
  return given > 0 and given or present()
end

local function version_of(record) return tonumber(sub(record, 1, 16)) end
local function until_of(record) return tonumber(sub(record, 17, 32)) end
local function rank_of(record) return sub(record, 33, HEAD) end
local function value_of(record) return sub(record, HEAD + 1) end

local function lives(record, now)
  local ends = until_of(record)
  return ends == 0 or now < ends
end

-- Takes a document out of a listed collection. KEYS as above.
local function remove(id, record)
  redis.call('HDEL', KEYS[1], id)
  redis.call('ZREM', KEYS[2], rank_of(record) .. id)
  redis.call('ZREM', KEYS[3], id)
end

-- Removes some of what has ended.
local function sweep(now)
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', format('%.0f', now), 'LIMIT', 0, SWEPT)) do
    local record = redis.call('HGET', KEYS[1], id)
    if record then remove(id, record) else redis.call('ZREM', KEYS[3], id) end
  end
end

-- The record of a value, and when it ends: microseconds, 0 for never. By the server's own time, so that a version is not given again after
-- the document was removed, or everything was.
local function record_of(stored, now, time, rank, span, value)
  local version, ends = math.max(time, stored and version_of(stored) + 1 or 0), 0
  if span ~= '-' then
    ends = now + tonumber(span)
    if ends >= 9007199254740992 then ends = 0 end
  end
  return format('%016.0f%016.0f', version, ends) .. rank .. value, ends, version
end

-- Writes a document that is not listed. Its version.
local function write(key, stored, now, time, rank, span, value)
  local record, ends, version = record_of(stored, now, time, rank, span, value)
  if ends == 0 then
    redis.call('SET', key, record)
  elseif ends > now then
    redis.call('SET', key, record, 'PX', format('%.0f', math.ceil(tonumber(span) / 1000)))
  else
    redis.call('DEL', key)
  end
  return version
end

