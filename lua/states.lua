-- What the scripts of the books share: arguments, keys, and the states of limits as they are stored. Each of them is loaded with base.lua
-- and this file in front of it, and after this the parts it needs: limits.lua (what limits do), call.lua (the limits of a call), claims.lua
-- (admit, replace, look), ends.lua (settle, replace, lower). Of admit and settle all of that is one function, `one_by_one`, which is called
-- where together.lua will not do.
--
-- Every number is an integer that a double holds exactly (up to 2^53); the gateway clamps what it sends. Beside each product or
-- quotient stands why it stays exact. With such integers x - x % 1 is the floor of a quotient x = a / b, and x + -x % 1 its ceiling: a
-- quotient that is no integer is at least 1/b away from the next one, which is more than the rounding error while a < 2^53. (They stand
-- for math.floor and math.ceil since a call costs several times what the arithmetic does, and so do comparisons for math.min.)
--
-- Numbers come and go packed, as little-endian doubles: exact, and a tenth of the time of spelling them. What people may want to read
-- (holds) is text, spelled with '%d': tostring and cjson lose digits above 1e14.
--
-- What is stored of the limits of a scope is one string: the byte 1, the microsecond until which it is kept at least, and
-- the state of each limit behind the other:
--   bucket   limit 'b' level at unit held        units in it (negative: debt), microseconds, units per token, units in flight (of one
--                                                that mirrors an account)
--   window   limit 'w' n at, n times: second amount       number of slots, microseconds, the slots, oldest first
--   budget   limit 'm' start spent held start spent held generation       the present period, then the one before it; the generation
--                                                counts deliberate decreases of what is spent
-- Limit (its place in LIMITS) and kind are a byte each, the rest doubles. A string of another shape counts as never seen, and so does a
-- state with impossible numbers; the next write replaces it. So is a key of another type, which MGET shows as absent.

-- The limits in the order of their numbers (LimitName::ALL in src/limit/claim.rs).
local LIMITS = { 'messages', 'rpm', 'tpm', 'input_tpm', 'output_tpm', 'rpd', 'tpd', 'spend_day', 'spend_week', 'spend_month',
  'requests_day', 'requests_week', 'requests_month', 'tokens_day', 'tokens_week', 'tokens_month' }

-- A part of a hold record or of a tombstone: key, limit, period start, amount.
local PART = '|(tg1:%S+) (%S+) (%d+) (%d+)'

-- === arguments ===

-- The first argument is all numbers of a call, one behind the other; what is text are arguments of their own behind it.
local packed, behind, argument = ARGV[1], 1, 1

local shapes = {}
local function shape_of(count)
  local shape = shapes[count]
  if not shape then
    shape = '<' .. rep('d', count)
    shapes[count] = shape
  end
  return shape
end

-- The next numbers, so many. (The list has one element more: where the next ones begin.)
local function numbers(count)
  local list = { unpack_from(shape_of(count), packed, behind) }
  behind = behind + 8 * count
  return list
end

local function text()
  argument = argument + 1
  return ARGV[argument]
end

-- The present in microseconds: what a test passed in (not zero), otherwise this server's own time.
local function clock(given)
  if given > 0 then return given end
  local time = call('TIME')
  return time[1] * 1000000 + time[2]
end

-- === keys of other kinds ===

-- Keys of another type than ours: somebody else wrote them. They count as never seen, and the first write replaces them.
local foreign = {}

local function read(command, key, ...)
  local reply = try(command, key, ...)
  if type(reply) == 'table' and reply.err then
    if not find(reply.err, 'WRONGTYPE', 1, true) then error(reply.err, 0) end
    foreign[key] = true
    return nil
  end
  return reply
end

local function replace_foreign(key)
  if foreign[key] then
    call('DEL', key)
    foreign[key] = nil
  end
end

-- Sees that a sweeper looks at the customer no later than at `deadline`; `indexed` is when it would look anyway. When it looks then.
local function index_hold(key, customer, indexed, deadline, now)
  if indexed and tonumber(indexed) <= deadline then return indexed end
  replace_foreign(key)
  call('ZADD', key, format('%d', deadline), customer)
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
-- The highest number of a limit there, until when it is kept at least, how long it must live (milliseconds; 0: as it does), whether it is
-- to be written; and which ones are.
local highest, kept_until, needs, changed, changes = {}, {}, {}, {}, {}

local function counts(list, n)
  for i = 1, n do
    if not (list[i] >= 0 and list[i] <= EXACT) then return false end        -- nor is it a NaN
  end
  return true
end

-- A window at `at` of a string, and where the next state is; nil of none that we write.
local function window_at(raw, at, size)
  if at + 17 > size then return nil end
  local n, seen = unpack_from('<dd', raw, at + 2)
  local next = at + 18 + 16 * n
  if not (n >= 0 and next <= size + 1) then return nil end
  local seconds, amounts = {}, {}
  for i = 1, n do seconds[i], amounts[i] = unpack_from('<dd', raw, at + 2 + 16 * i) end
  local ours = seen >= 0 and seen <= EXACT and counts(seconds, n) and counts(amounts, n)
  for i = 2, n do ours = ours and seconds[i] > seconds[i - 1] end
  return ours and { byte(raw, at), WINDOW, seen, seconds, amounts }, next
end

local function parse(i, raw)
  local states = { false, false, false, false, false, false, false, false, false, false, false, false, false, false, false, false }
  stored[i], kept_until[i], needs[i], highest[i] = states, 0, 0, 0
  local size = raw and #raw or 0
  if size < 9 or byte(raw) ~= 1 then return end
  local expires, at = unpack_from('<d', raw, 2), 10
  while at <= size do
    local kind, s, next = byte(raw, at + 1), false, nil
    if kind == BUCKET and at + 33 <= size then
      local limit, _, level, seen, unit, held = unpack_from('<BBdddd', raw, at)
      next = at + 34
      if level >= -EXACT and level <= EXACT and seen >= 0 and seen <= EXACT and unit >= 1 and unit <= EXACT and held >= 0
          and held <= EXACT then
        s = { limit, kind, level, seen, unit, held }
      end
    elseif kind == BUDGET and at + 57 <= size then
      local limit, _, a, b, c, d, e, f, g = unpack_from('<BBddddddd', raw, at)
      next = at + 58
      if a >= 0 and a <= EXACT and b >= 0 and b <= EXACT and c >= 0 and c <= EXACT and d >= 0 and d <= EXACT and e >= 0
          and e <= EXACT and f >= 0 and f <= EXACT and g >= 0 and g <= EXACT then
        s = { limit, kind, a, b, c, d, e, f, g }
      end
    elseif kind == WINDOW then
      s, next = window_at(raw, at, size)
    end
    if not next then
      for limit = 1, #LIMITS do states[limit] = false end
      return
    end
    if s and states[s[1]] == false then
      local limit = s[1]
      states[limit] = s
      if limit > highest[i] then highest[i] = limit end
    end
    at = next
  end
  if expires >= 0 and expires <= EXACT then kept_until[i] = expires end
end

-- What was read already, where together.lua did.
local read_before = ...

-- Reads what is stored under the first `last` keys, in which limits live, and the values of those behind them up to `more`.
local function load(last, more)
  if more == 0 then return {} end
  local values = read_before or call('MGET', unpack(KEYS, 1, more))
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
    local value = try('GET', key)
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

-- Keeps a state for `write_states`. It must live for `need` milliseconds.
local function put(key, state, need)
  stored[key][state[1]] = state
  if not changed[key] then
    changed[key], changes[#changes + 1] = true, key
  end
  if need > needs[key] then needs[key] = need end
end

-- === written states ===

local function state_packed(s)
  local kind = s[2]
  if kind == BUCKET then
    return pack('<BBdddd', s[1], BUCKET, s[3], s[4], s[5], s[6])
  elseif kind == BUDGET then
    return pack('<BBddddddd', s[1], BUDGET, s[3], s[4], s[5], s[6], s[7], s[8], s[9])
  end
  local slots = { pack('<BBdd', s[1], WINDOW, #s[4], s[3]) }
  for i, second in ipairs(s[4]) do slots[i + 1] = pack('<dd', second, s[5][i]) end
  return concat(slots)
end

-- Writes states, packed from the second on, so that they live for `need` milliseconds.
local function write_value(i, states, last, need, now)
  -- Never shortened, and not prolonged by every call: to set when a key ends costs more than to set its value.
  local expires = kept_until[i]
  if need > 0 and expires < now + need * 1000 then
    expires = now + (need + SLACK_MS) * 1000
    states[1] = pack('<Bd', 1, expires)
    call('SET', KEYS[i], concat(states, '', 1, last), 'PX', format('%d', (expires - now) / 1000))
  else
    states[1] = pack('<Bd', 1, expires)
    call('SET', KEYS[i], concat(states, '', 1, last), 'KEEPTTL')
  end
end

local function write_states(now)
  for _, i in ipairs(changes) do
    local pieces, n = {}, 1
    for limit = 1, #LIMITS do
      local s = stored[i][limit]
      if s then
        n = n + 1
        pieces[n] = state_packed(s)
      end
    end
    write_value(i, pieces, n, needs[i], now)
  end
end
