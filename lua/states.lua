-- What the scripts of the books share: arguments, keys, and the states of limits as they are stored. Each of them is loaded with this file
-- in front of it, and after this the parts it needs: limits.lua (what limits do), claims.lua (admit, replace, look), ends.lua (settle,
-- replace, lower).
--
-- Every number is an integer that a double holds exactly (up to 2^53); the gateway clamps what it sends. Beside each product or
-- quotient stands why it stays exact. With such integers x - x % 1 is the floor of a quotient x = a / b, and x + -x % 1 its ceiling: a
-- quotient that is no integer is at least 1/b away from the next one, which is more than the rounding error while a < 2^53. (They stand
-- for math.floor and math.ceil since a call costs several times what the arithmetic does, and so do comparisons for math.min.)
--
-- Numbers come and go packed, as little-endian doubles: exact, and a tenth of the time of spelling them. What people may want to read
-- (holds) is text, spelled with '%d': tostring and cjson lose digits above 1e14.
--
-- What is stored of a scope's rates, or of its budgets, is one string: the byte 1, the microsecond until which it is kept at least, and
-- the state of each limit behind the other:
--   bucket   limit 'b' level at unit held        units in it (negative: debt), microseconds, units per token, units in flight (of one
--                                                that mirrors an account)
--   window   limit 'w' n at, n times: second amount       number of slots, microseconds, the slots, oldest first
--   budget   limit 'm' start spent held start spent held generation       the present period, then the one before it; the generation
--                                                counts deliberate decreases of what is spent
-- Limit (its place in LIMITS) and kind are a byte each, the rest doubles. A string of another shape counts as never seen, and so does a
-- state with impossible numbers; the next write replaces it. So is a key of another type, which MGET shows as absent.

local byte, sub, find, match, gmatch, rep = string.byte, string.sub, string.find, string.match, string.gmatch, string.rep
local format, concat, pack, unpack_from = string.format, table.concat, struct.pack, struct.unpack

local EXACT = 9007199254740992          -- 2^53
local HOUR_MS, DAY_MS = 3600000, 86400000
local SLACK_MS = 600000                 -- granted on top of a needed time to live, so that not every call must prolong it

-- The limits in the order of their numbers (LimitName::ALL in src/limit/claim.rs).
local LIMITS = { 'messages', 'rpm', 'tpm', 'input_tpm', 'output_tpm', 'rpd', 'tpd', 'spend_day', 'spend_week', 'spend_month',
  'requests_day', 'requests_week', 'requests_month', 'tokens_day', 'tokens_week', 'tokens_month' }

local BUCKET, WINDOW, BUDGET = 98, 119, 109             -- 'b', 'w', 'm'

-- A part of a hold record or of a tombstone: key, limit, period start, amount.
local PART = '|(tg1:%S+) (%S+) (%d+) (%d+)'

-- === arguments ===

local argument = 0

local function text()
  argument = argument + 1
  return ARGV[argument]
end

-- All numbers of an argument. Arguments of one length are common, and so kept is how they are unpacked.
local shapes = {}
local function numbers()
  local packed = text()
  local size = #packed
  local shape = shapes[size]
  if not shape then
    shape = '<' .. rep('d', size / 8)
    shapes[size] = shape
  end
  return { unpack_from(shape, packed) }
end

-- The present in microseconds: what a test passed in (not zero), otherwise this server's own time.
local function clock(given)
  if given > 0 then return given end
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- Claims and lines stand in their argument one behind the other, each so many numbers long by its kind; those of its rule are the same in
-- both, from the eighth on. Here, what each is at, counted from the first of them:
--   0 place of its key, 1 limit (see LIMITS), 2 kind, 3 to 6 see claims.lua and ends.lua, then by kind
--   'b'  7 capacity, 8 gain, 9 unit, 10 mirrors (1 or 0)       capacity times unit is at most 2^51, or the gateway had refused it
--   'w'  7 cap
--   'm'  7 cap, 8 to 11 four period starts in seconds, and what the gateway last saw spent (zeros where it saw nothing): 12 period start,
--        13 generation, 14 amount
local LENGTH = { [BUCKET] = 11, [WINDOW] = 8, [BUDGET] = 15 }

-- === keys of other kinds ===

-- Keys of another type than ours: somebody else wrote them. They count as never seen, and the first write replaces them.
local foreign = {}

local function read(command, key, ...)
  local reply = redis.pcall(command, key, ...)
  if type(reply) == 'table' and reply.err then
    if not find(reply.err, 'WRONGTYPE', 1, true) then error(reply.err, 0) end
    foreign[key] = true
    return nil
  end
  return reply
end

local function replace_foreign(key)
  if foreign[key] then
    redis.call('DEL', key)
    foreign[key] = nil
  end
end

-- Makes sure that a key just written lives at least `need` milliseconds; never shortens its life.
local function keep(key, need)
  if redis.call('PTTL', key) < need then
    redis.call('PEXPIRE', key, format('%d', need + SLACK_MS))
  end
end

-- Sees that a sweeper looks at the customer no later than at `deadline`; `indexed` is when it would look anyway. When it looks then.
local function index_hold(key, customer, indexed, deadline, now)
  if indexed and tonumber(indexed) <= deadline then return indexed end
  replace_foreign(key)
  redis.call('ZADD', key, format('%d', deadline), customer)
  local left = (deadline - now) / 1000
  keep(key, (left > 0 and left + -left % 1 or 0) + 2 * DAY_MS)
  return deadline
end

-- === stored states ===

-- What is stored under each key that limits live in, by its place in KEYS: of each limit its state or false. A state is limit, kind, and
-- then, at these places:
--   bucket   3 level, 4 at, 5 unit, 6 held
--   window   3 at, 4 seconds, 5 amounts          (two lists)
--   budget   3 start, 4 spent, 5 held, 6 start, 7 spent, 8 held of the period before, 9 generation
-- Tables without names, since making one with a dozen names took as long as all the arithmetic on it.
local stored = {}
-- Until when each is kept at least, how long it must live (milliseconds; 0: as it does), and whether it is to be written.
local kept_until, needs, changed = {}, {}, {}

local function counts(s, first, last)
  for i = first, last do
    local n = s[i]
    if not (n >= 0 and n <= EXACT) then return false end        -- nor is it a NaN
  end
  return true
end

-- The state at `at` of a string, and where the next one is; nil of none that we write.
local function state_at(raw, at, size)
  local kind = byte(raw, at + 1)
  if kind == BUCKET and at + 33 <= size then
    local s = { unpack_from('<BBdddd', raw, at) }
    local level, seen, unit, held = s[3], s[4], s[5], s[6]
    return level >= -EXACT and level <= EXACT and seen >= 0 and seen <= EXACT and unit >= 1 and unit <= EXACT and held >= 0
        and held <= EXACT and s, at + 34
  elseif kind == BUDGET and at + 57 <= size then
    local s = { unpack_from('<BBddddddd', raw, at) }
    return counts(s, 3, 9) and s, at + 58
  elseif kind == WINDOW and at + 17 <= size then
    local n, seen = unpack_from('<dd', raw, at + 2)
    local next = at + 18 + 16 * n
    if not (n >= 0 and next <= size + 1) then return nil end
    local seconds, amounts = {}, {}
    for i = 1, n do seconds[i], amounts[i] = unpack_from('<dd', raw, at + 2 + 16 * i) end
    local ours = seen >= 0 and seen <= EXACT and counts(seconds, 1, n) and counts(amounts, 1, n)
    for i = 2, n do ours = ours and seconds[i] > seconds[i - 1] end
    return ours and { byte(raw, at), WINDOW, seen, seconds, amounts }, next
  end
end

local function parse(i, raw)
  local states = { false, false, false, false, false, false, false, false, false, false, false, false, false, false, false, false }
  stored[i], kept_until[i], needs[i] = states, 0, 0
  local size = raw and #raw or 0
  if size < 9 or byte(raw) ~= 1 then return end
  local expires, at = unpack_from('<d', raw, 2), 10
  while at <= size do
    local state, next = state_at(raw, at, size)
    if not next then
      for limit = 1, #LIMITS do states[limit] = false end
      return
    end
    if state and states[state[1]] == false then states[state[1]] = state end
    at = next
  end
  if expires >= 0 and expires <= EXACT then kept_until[i] = expires end
end

-- Reads what is stored under the first `last` keys, in which limits live, and the values of those behind them up to `more`.
local function load(last, more)
  if more == 0 then return {} end
  local values = redis.call('MGET', unpack(KEYS, 1, more))
  for i = 1, last do parse(i, values[i]) end
  return values
end

-- The place of a key in KEYS, and what is stored there, where nobody declared it.
local places
local function place_of(key)
  if not places then
    places = {}
    for i, name in ipairs(KEYS) do places[name] = places[name] or i end
  end
  local i = places[key]
  if not i then
    i = #KEYS + 1
    KEYS[i], places[key] = key, i
  end
  if not stored[i] then
    local value = redis.pcall('GET', key)
    if type(value) == 'table' then
      if not find(value.err, 'WRONGTYPE', 1, true) then error(value.err, 0) end
      value = nil
    end
    parse(i, value)
  end
  return i
end

-- The number of a limit; nil of none that we know.
local function limit_named(name)
  for number, limit in ipairs(LIMITS) do
    if limit == name then return number end
  end
end

-- Keeps a state: whoever decides next goes on from here, and `write_states` writes it. It must live for `need` milliseconds.
local function put(key, state, need)
  stored[key][state[1]], changed[key] = state, true
  if need > needs[key] then needs[key] = need end
end

-- === written states ===

local function packed_window(s)
  local slots = { pack('<BBdd', s[1], WINDOW, #s[4], s[3]) }
  for i, second in ipairs(s[4]) do slots[i + 1] = pack('<dd', second, s[5][i]) end
  return concat(slots)
end

local function write_states(now)
  for i in pairs(changed) do
    local states, value, count = stored[i], {}, 1
    for limit = 1, #LIMITS do
      local s = states[limit]
      if s then
        count = count + 1
        if s[2] == BUCKET then
          value[count] = pack('<BBdddd', limit, BUCKET, s[3], s[4], s[5], s[6])
        elseif s[2] == BUDGET then
          value[count] = pack('<BBddddddd', limit, BUDGET, s[3], s[4], s[5], s[6], s[7], s[8], s[9])
        else
          value[count] = packed_window(s)
        end
      end
    end
    -- Never shortened, and not prolonged by every call: to set when a key ends costs more than to set its value.
    local need, expires = needs[i], kept_until[i]
    if need > 0 and expires < now + need * 1000 then
      expires = now + (need + SLACK_MS) * 1000
      value[1] = pack('<Bd', 1, expires)
      redis.call('SET', KEYS[i], concat(value), 'PX', format('%d', (expires - now) / 1000))
    else
      value[1] = pack('<Bd', 1, expires)
      redis.call('SET', KEYS[i], concat(value), 'KEEPTTL')
    end
  end
end

