-- What the scripts of the books share: reading arguments, keys and states, and the arithmetic of the three kinds of limit. Each of them is
-- loaded with this file in front of it, and after this the parts it needs: claims.lua (admit, replace, look) and ends.lua (settle, replace).
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
local JITTER = 1000000                  -- microseconds a clock may step back without a stored time being wrong
local HEALING = 16                      -- of what cannot be earned, one part in so many pays back what a mirror holds
local SPAN = 60                         -- seconds a slot stays in a window's sum after its own second
local YEAR = 31536000000000             -- microseconds until a bucket that never refills is called full
local HOUR_MS, DAY_MS = 3600000, 86400000
local SLACK_MS = 600000                 -- granted on top of a needed time to live, so that not every call must prolong it

-- The limits in the order of their numbers (limit_number in src/store/redis/stored.rs).
local LIMITS = { 'messages', 'rpm', 'tpm', 'input_tpm', 'output_tpm', 'rpd', 'tpd', 'spend_day', 'spend_week', 'spend_month',
  'requests_day', 'requests_week', 'requests_month', 'tokens_day', 'tokens_week', 'tokens_month' }

local BUCKET, WINDOW, BUDGET = 98, 119, 109             -- 'b', 'w', 'm'
local FITS, STARTS, REFUSED, IN_FLIGHT, EXHAUSTED, NEVER, DEFERRED = 0, 1, 2, 3, 4, 5, 6

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

-- === token bucket (limit/bucket.rs) ===

-- Levels reach from -2^53 to 2^51. Only where a debt is within 2^51 of the lower end can what is missing to a full bucket pass 2^53,
-- and then a wait is off by a microsecond in centuries.

-- How a bucket stands at `now`: level, the time of that, and what is held of it. A state of another kind (the plan changed) counts as
-- never seen, here and below.
local function open_bucket(s, full, gain, unit, now)
  if not s or s[2] ~= BUCKET then return full, now, 0 end
  local level, at, held = s[3], s[4], s[6]
  if s[5] ~= unit then
    held = math.min(math.floor(held / s[5]) * unit, EXACT)
    -- The product may pass 2^53 in either direction; the clamps beside and below it then decide, and rounding cannot cross them.
    level = math.max(math.floor(level / s[5]) * unit, -EXACT)
  end
  if level > full then level = full end
  local elapsed = now - at
  if elapsed >= 0 then
    at = now
  else
    if elapsed < -JITTER then at = now end
    elapsed = 0
  end
  local most = gain > 0 and (full - level) / gain or 0
  if gain > 0 and elapsed > most - most % 1 then
    level = full
  else
    level = level + elapsed * gain              -- the product is at most what is missing to a full bucket
  end
  if held > 0 then
    -- Sixteen times an integer up to 2^51 is exact.
    if gain > 0 and elapsed > HEALING * math.floor(full / gain) then held = 0 end
    local beyond = level - (full - held)        -- positive ones are at most `held`
    if held > 0 and beyond > 0 then
      local healed = math.min(math.ceil(beyond / HEALING), held)
      level = level - (beyond - healed)
      held = held - healed
    end
  end
  return level, at, held
end

-- The level when so many tokens are taken.
local function charged(level, amount, unit)
  local taken = amount * unit
  if taken > EXACT then taken = EXACT end       -- a product above 2^53 is clamped
  level = level - taken
  return level > -EXACT and level or -EXACT
end

-- Ends a hold of a mirror: it is given back, as far as anything is held, and what was used is charged. Level and what is held then.
local function settled_mirror(level, held, full, unit, claimed, actual)
  local given = math.min(math.min(claimed * unit, EXACT), held)
  return charged(math.min(level + given, full), actual, unit), held - given
end

-- The level when `actual` takes the place of what was claimed.
local function corrected(level, full, unit, claimed, actual, forgive)
  if actual <= claimed then
    -- A product above 2^53 is clamped; so is the sum, to a full bucket.
    local back = (claimed - actual) * unit
    if back > EXACT then back = EXACT end
    level = level + back
    if level > full then level = full end
  else
    local deepest = forgive and math.min(level, -full) or -EXACT
    level = math.max(level - math.min((actual - claimed) * unit, EXACT), deepest)
  end
  return level > -EXACT and level or -EXACT
end

-- Microseconds until it is full.
local function full_in(level, full, gain)
  local missing = full - level
  if missing <= 0 then return 0 end
  if gain == 0 then return YEAR end
  local wait = missing / gain
  return wait + -wait % 1
end

-- Until it is full it must not be forgotten: one never seen is full. One hour at least.
local function put_bucket(key, limit, level, at, held, full, gain, unit)
  local s, need = stored[key][limit], full_in(level, full, gain) / 1000
  if s and s[2] == BUCKET then
    s[3], s[4], s[5], s[6] = level, at, unit, held
  else
    s = { limit, BUCKET, level, at, unit, held }
  end
  put(key, s, need > HOUR_MS and need + -need % 1 or HOUR_MS)
end

-- === sliding window (limit/window.rs) ===

-- The slots of a window at `now`: two lists of its own, and the time of that.
local function open_window(s, now)
  local seconds, amounts = {}, {}
  if not s or s[2] ~= WINDOW then return seconds, amounts, now end
  local seen = s[3]
  local back, moved, at = seen - now, 0, now
  if back > JITTER then
    moved = math.floor(seen / 1000000) - math.floor(now / 1000000)      -- the clock was set back: the slots go along
  elseif back > 0 then
    at = seen
  end
  local oldest = math.floor(now / 1000000) - SPAN
  for i, second in ipairs(s[4]) do
    second = second - moved
    if second >= oldest then
      seconds[#seconds + 1], amounts[#amounts + 1] = second, s[5][i]
    end
  end
  return seconds, amounts, at
end

local function sum_at(seconds, amounts, second)
  local sum = 0
  for i, slot in ipairs(seconds) do
    if slot + SPAN >= second then sum = sum + amounts[i] end
  end
  return sum
end

-- The first second, not before anybody already in line, in which `amount` fits. Slots are ascending, so those that have left the
-- window at `start` are the first `gone` ones.
local function first_fit(seconds, amounts, cap, now_second, amount)
  local start = math.max(now_second, seconds[#seconds] or 0)
  local sum, gone, oldest = 0, 0, 0
  for i = 1, #amounts do sum = sum + amounts[i] end
  while true do
    while gone < #seconds and seconds[gone + 1] + SPAN < start do
      gone = gone + 1
      sum = sum - amounts[gone]
    end
    if sum + amount <= cap or oldest == #seconds then return start end
    oldest = oldest + 1                     -- only the oldest slot's leaving makes room
    start = math.max(start, seconds[oldest] + SPAN + 1)
  end
end

-- A slot that holds nothing would make others wait, so there are none.
local function add_slot(seconds, amounts, second, amount)
  local n = #seconds
  if amount == 0 then return end
  if n > 0 and seconds[n] >= second then
    amounts[n] = math.min(amounts[n] + amount, EXACT)
  else
    seconds[n + 1], amounts[n + 1] = second, amount
  end
end

local function correct_slots(seconds, amounts, claimed, actual, now, booked)
  if actual > claimed then
    add_slot(seconds, amounts, math.floor(now / 1000000), actual - claimed)
    return
  end
  for i, second in ipairs(seconds) do
    if second == booked then
      amounts[i] = amounts[i] - (claimed - actual)
      if amounts[i] <= 0 then
        table.remove(seconds, i)
        table.remove(amounts, i)
      end
      return
    end
  end
end

-- Microseconds until it is empty.
local function empty_in(seconds, now)
  local newest = seconds[#seconds]
  return newest and math.max((newest + SPAN + 1) * 1000000 - now, 0) or 0
end

local function put_window(key, limit, seconds, amounts, at, now)
  put(key, { limit, WINDOW, at, seconds, amounts }, math.max(HOUR_MS, math.ceil(empty_in(seconds, now) / 1000)))
end

-- === budget or quota (limit/budget.rs) ===

-- How a budget stands at `now`, by the claim or line that begins at `i`: start, spent, held, the same of the period before, generation;
-- where the present period ends, seconds; and whether it was repaired. The deciding clock picks the period among the boundaries.
--
-- Nothing here ever makes less spent without a new generation. So what a gateway saw spent of the same period, in this generation or a
-- later one, was spent: where there is less now, this server has lost it (a failover, a flush).
local function open_budget(s, n, i, now)
  local start, spent, held, start_before, spent_before, held_before, generation = 0, 0, 0, 0, 0, 0, 0
  if s and s[2] == BUDGET then
    start, spent, held, start_before, spent_before, held_before, generation = s[3], s[4], s[5], s[6], s[7], s[8], s[9]
  end
  local begins, ends = n[i + 8], n[i + 9]
  if now >= ends * 1000000 then
    begins, ends = ends, n[i + 10]
    if now >= ends * 1000000 then begins, ends = ends, n[i + 11] end
  end
  if begins > start then                    -- time that runs back stays in the newer period
    start_before, spent_before, held_before = start, spent, held
    start, spent, held = begins, 0, 0
  end
  local seen, repaired = n[i + 12], false
  if seen ~= 0 and n[i + 13] >= generation then
    local lost = n[i + 14]
    if start == seen then
      generation = n[i + 13]
      if spent < lost then spent, repaired = lost, true end
    elseif start_before == seen then
      generation = n[i + 13]
      if spent_before < lost then spent_before, repaired = lost, true end
    end
  end
  return start, spent, held, start_before, spent_before, held_before, generation, ends, repaired
end

-- It must live for its period and the longest stream that may still settle in it. The state.
local function put_budget(key, limit, start, spent, held, start_before, spent_before, held_before, generation, ends, now)
  local s, left = stored[key][limit], (ends * 1000000 - now) / 1000
  if s and s[2] == BUDGET then
    s[3], s[4], s[5], s[6], s[7], s[8], s[9] = start, spent, held, start_before, spent_before, held_before, generation
  else
    s = { limit, BUDGET, start, spent, held, start_before, spent_before, held_before, generation }
  end
  put(key, s, (left > 0 and left + -left % 1 or 0) + 2 * DAY_MS)
  return s
end

-- Books `actual` in a state in place of `held`, or of the `booked` that a sweeper put in its place. What is spent of the period then; nil
-- of one that is no longer known.
local function settle_budget(s, period, held, actual, booked)
  local at = s[3] == period and 3 or s[6] == period and 6 or nil
  if not at then return nil end
  local before, left = s[at + 1], s[at + 2] - held
  local spent = before - booked
  spent = (spent > 0 and spent or 0) + actual
  if spent > EXACT then spent = EXACT end
  if spent < before then s[9] = s[9] + 1 end
  s[at + 1], s[at + 2] = spent, left > 0 and left or 0
  return spent
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

