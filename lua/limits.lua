-- What all scripts share: reading arguments, keys and states, and the arithmetic of the three kinds of limit. Each of them is loaded
-- with this file in front of it, and after this the parts it needs: claims.lua (admit, replace) and ends.lua (settle, replace).
--
-- Every number is an integer that a double holds exactly (up to 2^53); the gateway clamps what it sends. Beside each product or
-- quotient stands why it stays exact. For quotients of such integers floor(a / b) and ceil(a / b) are right: a quotient that is no
-- integer is at least 1/b away from the next one, which is more than the rounding error while a < 2^53.
-- Numbers are stored with '%.0f' only: tostring and cjson lose digits above 1e14.
--
-- States, one field of a hash per limit (the field is the limit's name):
--   bucket   b<level> <at> <unit>           units in it (negative: debt), microseconds, units per token
--            b<level> <at> <unit> <held>         of one that mirrors an account: units of claims in flight
--   window   w<at> <second>:<amount> ...    microseconds, then the slots, oldest first
--   budget   <start> <spent> <held> <start> <spent> <held> <generation>
--            the present period, then the one before it; the generation counts deliberate decreases of what is spent
-- Anything else in a field counts as never seen and is overwritten by the next write.

local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min
local format, match, gmatch, concat = string.format, string.match, string.gmatch, table.concat

local EXACT = 9007199254740992          -- 2^53
local JITTER = 1000000                  -- microseconds a clock may step back without a stored time being wrong
local HEALING = 16                      -- of what cannot be earned, one part in so many pays back what a mirror holds
local SPAN = 60                         -- seconds a slot stays in a window's sum after its own second
local YEAR = 31536000000000             -- microseconds until a bucket that never refills is called full
local HOUR_MS, DAY_MS = 3600000, 86400000
local SLACK_MS = 600000                 -- granted on top of a needed time to live, so that not every call must prolong it

-- A part of a hold record or of a tombstone: key, limit, period start, amount.
local PART = '|(tg1:%S+) (%S+) (%d+) (%d+)'

local FITS, STARTS, REFUSED, IN_FLIGHT, EXHAUSTED, NEVER, DEFERRED = 0, 1, 2, 3, 4, 5, 6

-- === arguments ===

local argument = 0

local function text()
  argument = argument + 1
  return ARGV[argument]
end

local function number()
  return tonumber(text())
end

-- The present in microseconds: what a test passed in, otherwise this server's own time.
local function clock(given)
  if given > 0 then return given end
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000000 + tonumber(time[2])
end

-- Reads the numbers of a rule into a claim or line: kind, then what the kind needs. With a budget comes what the gateway last saw spent
-- of it: period start, generation, amount (zeros where it saw nothing).
local function rule(c)
  c.kind = text()
  if c.kind == 'b' then
    c.capacity, c.gain, c.unit, c.mirrors = number(), number(), number(), text() == '1'
    c.full = c.capacity * c.unit        -- at most 2^51, or the gateway had refused the limit when it was loaded
  elseif c.kind == 'w' then
    c.cap = number()
  else
    c.cap = number()
    c.bounds = { number(), number(), number(), number() }
    c.floor = { period = number(), generation = number(), spent = number() }
  end
end

-- === keys ===

-- Keys of another type than ours: somebody else wrote them. They count as never seen, and the first write replaces them.
local foreign = {}

local function read(command, key, ...)
  local reply = redis.pcall(command, key, ...)
  if type(reply) == 'table' and reply.err then
    if not string.find(reply.err, 'WRONGTYPE', 1, true) then error(reply.err, 0) end
    foreign[key] = true
    return nil
  end
  return reply
end

-- The stored states of all claims, one HMGET per key: states[key index][limit].
local function read_states(claims)
  local names, states = {}, {}
  for _, c in ipairs(claims) do
    local list = names[c.key]
    if not list then
      list = {}
      names[c.key] = list
    end
    list[#list + 1] = c.limit
  end
  for key, list in pairs(names) do
    local values, of_key = read('HMGET', KEYS[key], unpack(list)), {}
    for i, limit in ipairs(list) do of_key[limit] = values and values[i] end
    states[key] = of_key
  end
  return states
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
    redis.call('PEXPIRE', key, format('%.0f', need + SLACK_MS))
  end
end

-- Sees that a sweeper looks at the customer no later than at `deadline`; `indexed` is when it would look anyway.
local function index_hold(key, customer, indexed, deadline, now)
  if indexed and tonumber(indexed) <= deadline then return end
  replace_foreign(key)
  redis.call('ZADD', key, format('%.0f', deadline), customer)
  keep(key, max(ceil((deadline - now) / 1000), 0) + 2 * DAY_MS)
end

-- Writes the states of these claims, in order, so that of two for one limit the last one stays.
local function write_states(claims, now)
  local fields, needs = {}, {}
  for _, c in ipairs(claims) do
    local list = fields[c.key]
    if not list then
      list = {}
      fields[c.key], needs[c.key] = list, 0
    end
    list[#list + 1] = c.limit
    list[#list + 1] = c:pack()
    needs[c.key] = max(needs[c.key], c:lifetime(now))
  end
  for key, list in pairs(fields) do
    replace_foreign(KEYS[key])
    redis.call('HSET', KEYS[key], unpack(list))
    if needs[key] > 0 then keep(KEYS[key], needs[key]) end
  end
end

-- === token bucket (limit/bucket.rs) ===

-- Levels reach from -2^53 to 2^51. Only where a debt is within 2^51 of the lower end can what is missing to a full bucket pass 2^53,
-- and then a wait is off by a microsecond in centuries.

local Bucket = {}
Bucket.__index = Bucket

local function stored_bucket(raw)
  if not raw then return nil end
  local level, at, unit, held = match(raw, '^b(%-?%d+) (%d+) (%d+) ?(%d*)$')
  level, at, unit, held = tonumber(level), tonumber(at), tonumber(unit), tonumber(held ~= '' and held or 0)
  if level and level >= -EXACT and level <= EXACT and at <= EXACT and unit >= 1 and unit <= EXACT and held <= EXACT then
    return level, at, unit, held
  end
end

function Bucket:open(raw, now)
  local level, seen, unit, held = stored_bucket(raw)
  if not level then
    self.level, self.at, self.held = self.full, now, 0
    return
  end
  if unit ~= self.unit then
    held = min(floor(held / unit) * self.unit, EXACT)
    -- The product may pass 2^53 in either direction; the clamps beside and below it then decide, and rounding cannot cross them.
    level = max(floor(level / unit) * self.unit, -EXACT)
  end
  level = min(level, self.full)
  self.at = (seen > now and seen - now <= JITTER) and seen or now
  local elapsed = max(self.at - seen, 0)
  if self.gain > 0 and elapsed > floor((self.full - level) / self.gain) then
    self.level = self.full
  else
    self.level = level + elapsed * self.gain    -- the product is at most what is missing to a full bucket
  end
  -- Sixteen times an integer up to 2^51 is exact.
  if self.gain > 0 and elapsed > HEALING * floor(self.full / self.gain) then held = 0 end
  self.held = held
  local beyond = self.level - (self.full - held)        -- positive ones are at most `held`
  if held > 0 and beyond > 0 then
    local healed = min(ceil(beyond / HEALING), held)
    self.level = self.level - (beyond - healed)
    self.held = held - healed
  end
end

function Bucket:fit(now, amount, max_wait)
  if amount > self.capacity then return NEVER, 0 end
  local missing = amount * self.unit - self.level   -- the product is at most `full`
  if missing <= 0 then return FITS, 0 end
  if self.gain == 0 then return NEVER, 0 end
  -- It fills from the time of its level on, which a clock that lags has yet to reach.
  local wait = ceil(missing / self.gain) + max(self.at - now, 0)
  if wait <= max_wait then return STARTS, wait end
  return REFUSED, wait - max_wait
end

function Bucket:charge(amount)
  self.level = max(self.level - min(amount * self.unit, EXACT), -EXACT)     -- a product above 2^53 is clamped
end

function Bucket:take(amount)
  self:charge(amount)
  if self.mirrors then self.held = min(self.held + min(amount * self.unit, EXACT), EXACT) end
end

-- Ends a hold of a mirror: it is given back, as far as anything is held, and what was used is charged.
function Bucket:settle(claimed, actual)
  local given = min(min(claimed * self.unit, EXACT), self.held)
  self.held = self.held - given
  self.level = min(self.level + given, self.full)
  self:charge(actual)
end

function Bucket:correct(claimed, actual, forgive)
  if actual <= claimed then
    -- A product above 2^53 is clamped; so is the sum, to a full bucket.
    self.level = min(self.level + min((claimed - actual) * self.unit, EXACT), self.full)
  else
    local deepest = forgive and min(self.level, -self.full) or -EXACT
    self.level = max(self.level - min((actual - claimed) * self.unit, EXACT), deepest)
  end
  self.level = max(self.level, -EXACT)
end

function Bucket:until_full()
  local missing = self.full - self.level
  if missing <= 0 then return 0 end
  return self.gain == 0 and YEAR or ceil(missing / self.gain)
end

function Bucket:stands(now)
  local full_in = self:until_full()
  if full_in > 0 then full_in = full_in + max(self.at - now, 0) end
  return ceil((self.full - self.level) / self.unit), 0, floor(max(self.level, 0) / self.unit), full_in, 0
end

function Bucket:pack()
  if self.held > 0 then return format('b%.0f %.0f %.0f %.0f', self.level, self.at, self.unit, self.held) end
  return format('b%.0f %.0f %.0f', self.level, self.at, self.unit)
end

-- Until it is full it must not be forgotten: one never seen is full. One hour at least.
function Bucket:lifetime()
  return max(HOUR_MS, ceil(self:until_full() / 1000))
end

-- === sliding window (limit/window.rs) ===

local Window = {}
Window.__index = Window

function Window:open(raw, now)
  self.seconds, self.amounts, self.at = {}, {}, now
  local at = tonumber(match(raw or '', '^w(%d+)[%d: ]*$') or nil)
  if not at or at > EXACT or match(raw, '^w%d+:') then return end
  local back, moved = at - now, 0
  if back > JITTER then
    moved = floor(at / 1000000) - floor(now / 1000000)      -- the clock was set back: the slots go along
  elseif back > 0 then
    self.at = at
  end
  local oldest, n = floor(now / 1000000) - SPAN, 0
  for second, amount in gmatch(raw, '(%d+):(%d+)') do
    second, amount = tonumber(second), tonumber(amount)
    if second > EXACT or amount > EXACT or (n > 0 and second - moved <= self.seconds[n]) then
      self.seconds, self.amounts = {}, {}   -- not written by us
      return
    end
    second = second - moved
    if second >= oldest then
      n = n + 1
      self.seconds[n], self.amounts[n] = second, amount
    end
  end
end

function Window:sum_at(second)
  local sum = 0
  for i, slot in ipairs(self.seconds) do
    if slot + SPAN >= second then sum = sum + self.amounts[i] end
  end
  return sum
end

-- The first second, not before anybody already in line, in which `amount` fits. Slots are ascending, so those that have left the
-- window at `start` are the first `gone` ones.
function Window:first_fit(now_second, amount)
  local seconds, amounts = self.seconds, self.amounts
  local start = max(now_second, seconds[#seconds] or 0)
  local sum, gone, oldest = 0, 0, 0
  for i = 1, #amounts do sum = sum + amounts[i] end
  while true do
    while gone < #seconds and seconds[gone + 1] + SPAN < start do
      gone = gone + 1
      sum = sum - amounts[gone]
    end
    if sum + amount <= self.cap or oldest == #seconds then return start end
    oldest = oldest + 1                     -- only the oldest slot's leaving makes room
    start = max(start, seconds[oldest] + SPAN + 1)
  end
end

function Window:fit(now, amount, max_wait)
  if amount > self.cap then return NEVER, 0 end
  local wait = max(self:first_fit(floor(now / 1000000), amount) * 1000000 - now, 0)
  if wait == 0 then return FITS, 0 end
  if wait <= max_wait then return STARTS, wait end
  return REFUSED, wait - max_wait
end

-- A slot that holds nothing would make others wait, so there are none.
function Window:add(second, amount)
  local n = #self.seconds
  if amount == 0 then return end
  if n > 0 and self.seconds[n] >= second then
    self.amounts[n] = min(self.amounts[n] + amount, EXACT)
  else
    self.seconds[n + 1], self.amounts[n + 1] = second, amount
  end
end

function Window:take(amount, start)
  self:add(floor(start / 1000000), amount)
end

function Window:correct(claimed, actual, now, booked)
  if actual > claimed then
    self:add(floor(now / 1000000), actual - claimed)
    return
  end
  for i, second in ipairs(self.seconds) do
    if second == booked then
      self.amounts[i] = self.amounts[i] - (claimed - actual)
      if self.amounts[i] <= 0 then
        table.remove(self.seconds, i)
        table.remove(self.amounts, i)
      end
      return
    end
  end
end

function Window:until_empty(now)
  local newest = self.seconds[#self.seconds]
  return newest and max((newest + SPAN + 1) * 1000000 - now, 0) or 0
end

function Window:stands(now, wait)
  local used = self:sum_at(floor(now / 1000000))
  return used, 0, max(self.cap - used, 0), self:until_empty(now), floor((now + wait) / 1000000)
end

function Window:pack()
  local parts = { format('w%.0f', self.at) }
  for i, second in ipairs(self.seconds) do parts[i + 1] = format('%.0f:%.0f', second, self.amounts[i]) end
  return concat(parts, ' ')
end

function Window:lifetime(now)
  return max(HOUR_MS, ceil(self:until_empty(now) / 1000))
end

-- === budget or quota (limit/budget.rs) ===

local Budget = {}
Budget.__index = Budget

-- Budgets that this call found with less spent than was seen.
local repaired = 0

-- Start and end, in seconds, of the period in which `now` lies: the deciding clock picks among the boundaries passed in.
function Budget:period(now)
  local second, b = floor(now / 1000000), self.bounds
  if second < b[2] then return b[1], b[2] end
  if second < b[3] then return b[2], b[3] end
  return b[3], b[4]
end

-- The periods as they were stored.
function Budget:recall(raw)
  local n = { 0, 0, 0, 0, 0, 0, 0 }
  if raw then
    local stored = { match(raw, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$') }
    for i = 1, 7 do
      stored[i] = tonumber(stored[i])
      if not stored[i] or stored[i] > EXACT then stored = n end
    end
    n = stored
  end
  self.current = { start = n[1], spent = n[2], held = n[3] }
  self.previous = { start = n[4], spent = n[5], held = n[6] }
  self.generation = n[7]
end

-- Nothing here ever makes less spent without a new generation. So what a gateway saw spent of the same period, in this generation or a
-- later one, was spent: where there is less now, this server has lost it (a failover, a flush).
function Budget:repair()
  local seen = self.floor
  if seen.period == 0 or seen.generation < self.generation then return end
  for _, period in ipairs({ self.current, self.previous }) do
    if period.start == seen.period then
      self.generation = seen.generation
      if period.spent < seen.spent then
        period.spent = seen.spent
        self.repaired = true
        repaired = repaired + 1
      end
      return
    end
  end
end

function Budget:open(raw, now)
  self:recall(raw)
  local start = self:period(now)
  if start > self.current.start then        -- time that runs back stays in the newer period
    self.previous = self.current
    self.current = { start = start, spent = 0, held = 0 }
  end
  self:repair()
end

-- Sums above 2^53 may be rounded, but not below 2^53, and no cap is larger.
function Budget:fit(_, asked)
  local spent, held = self.current.spent, self.current.held
  if spent + asked > self.cap then return EXHAUSTED, 0 end
  if spent + asked + held > self.cap then return IN_FLIGHT, 0 end
  return FITS, 0
end

function Budget:take(amount)
  self.current.held = min(self.current.held + amount, EXACT)
end

-- Books `actual` in place of `held`, or of the `booked` that a sweeper put in its place. Whether the period is still known.
function Budget:settle(start, held, actual, booked)
  for _, period in ipairs({ self.current, self.previous }) do
    if period.start == start then
      local before = period.spent
      period.held = max(period.held - held, 0)
      period.spent = min(max(before - booked, 0) + actual, EXACT)
      if period.spent < before then self.generation = self.generation + 1 end
      return true, period.spent
    end
  end
  return false
end

function Budget:stands(now)
  local period = self.current
  local _, ends = self:period(now)
  local remaining = max(self.cap - (period.spent + period.held), 0)
  return period.spent, period.held, remaining, max(ends * 1000000 - now, 0), period.start
end

function Budget:pack()
  local c, p = self.current, self.previous
  return format('%.0f %.0f %.0f %.0f %.0f %.0f %.0f', c.start, c.spent, c.held, p.start, p.spent, p.held, self.generation)
end

-- The period and the longest stream that may still settle in it. Of a state that was only recalled its key knows.
function Budget:lifetime(now)
  if not self.bounds then return 0 end
  local _, ends = self:period(now)
  return max(ceil((ends * 1000000 - now) / 1000), 0) + 2 * DAY_MS
end

local KINDS = { b = Bucket, w = Window, m = Budget }

-- The kind of rule that keeps a stored state; nil of none and of what nobody writes.
local function kind_of(raw)
  return raw and (match(raw, '^[bw]') or (match(raw, '^%d') and 'm')) or nil
end

-- Gives a claim the state of its limit at `now`; a state of another shape (the plan changed) counts as never seen.
local function open(c, states, now)
  setmetatable(c, KINDS[c.kind])
  c:open(states[c.key][c.limit], now)
end

-- Gives a line of a budget the periods as they are stored: what ends there needs no present one.
local function recall(c, states)
  setmetatable(c, Budget)
  c:recall(states[c.key][c.limit])
end

