-- Writes documents, whatever is there, as document_put.lua does with one: what many requests leave at once, in one call.
--
-- KEYS   the documents, none of a listed collection
-- ARGV   now in microseconds (0: this server's time); then for each rank in 16 hexadecimal digits, microseconds until it ends
--        ('-': never), and the value
-- Reply  how many

local now, time = clock(ARGV[1]), present()
for i, key in ipairs(KEYS) do
  local at = 3 * i - 1
  local head = redis.call('GETRANGE', key, 0, HEAD - 1)    -- of a document that is not there: nothing
  write(key, head ~= '' and head, now, time, ARGV[at], ARGV[at + 1], ARGV[at + 2])
end
return #KEYS
