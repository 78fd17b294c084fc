-- Lists documents of a collection by rank and id.
--
-- KEYS   1..3  `docs`, `order` and `ends` of the collection
-- ARGV   now in microseconds (0: this server's time), where to begin and where to end (as ZRANGEBYLEX takes them), documents at most,
--        bytes after which no more is added
-- Reply  1 if there may be more (0 if not), then for each document: rank in 16 hexadecimal digits, id, version, value

local STEP = 64

local now, from, to, most, bytes = clock(ARGV[1]), ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local reply, count, size = { 1 }, 0, 0

sweep(now)
while true do
  local members = redis.call('ZRANGEBYLEX', KEYS[2], from, to, 'LIMIT', 0, STEP)
  for _, member in ipairs(members) do
    local id = sub(member, 17)
    local record = redis.call('HGET', KEYS[1], id)
    if record and lives(record, now) then
      local at = #reply
      reply[at + 1], reply[at + 2], reply[at + 3], reply[at + 4] = sub(member, 1, 16), id, version_of(record), value_of(record)
      count, size = count + 1, size + #record
      if count >= most or size >= bytes then return reply end
    end
    from = '(' .. member
  end
  if #members < STEP then
    reply[1] = 0
    return reply
  end
end
