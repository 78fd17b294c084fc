-- What the three kinds of limit do to their states, over states.lua. The twin of limit/bucket.rs, limit/window.rs and limit/budget.rs.

local JITTER = 1000000                  -- microseconds a clock may step back without a stored time being wrong
local SPAN = 60                         -- seconds a slot stays in a window's sum after its own second

local FITS, STARTS, REFUSED, IN_FLIGHT, EXHAUSTED, NEVER, DEFERRED = 0, 1, 2, 3, 4, 5, 6

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

-- === budget or quota (limit/budget.rs) ===

-- How a budget stands in the period that begins then: start, spent, held, the same of the period before,
-- generation, and whether it was repaired.
--
-- Nothing here ever makes less spent without a new generation. So what a gateway saw spent (`floor`) of the same period (`seen`), in this
-- generation (`since`) or a later one, was spent: where there is less now, this server has lost it (a failover, a flush).
local function open_budget(s, begins, seen, since, floor)
  local start, spent, held, start_before, spent_before, held_before, generation = 0, 0, 0, 0, 0, 0, 0
  if s and s[2] == BUDGET then
    start, spent, held, start_before, spent_before, held_before, generation = s[3], s[4], s[5], s[6], s[7], s[8], s[9]
  end
  local repaired = false
  if begins > start then                    -- time that runs back stays in the newer period
    start_before, spent_before, held_before = start, spent, held
    start, spent, held = begins, 0, 0
  end
  if seen ~= 0 and since >= generation then
    if start == seen then
      generation = since
      if spent < floor then spent, repaired = floor, true end
    elseif start_before == seen then
      generation = since
      if spent_before < floor then spent_before, repaired = floor, true end
    end
  end
  return start, spent, held, start_before, spent_before, held_before, generation, repaired
end

-- Books `actual` in place of `held`, or of the `booked` that a sweeper put in its place. The budget stands in a list from `first` on, as
-- it is stored. What is spent of the period then; nil of one that is no longer known.
local function settle_budget(s, first, period, held, actual, booked)
  local at = s[first] == period and first or s[first + 3] == period and first + 3 or nil
  if not at then return nil end
  local before, left = s[at + 1], s[at + 2] - held
  local spent = before - booked
  spent = (spent > 0 and spent or 0) + actual
  if spent > EXACT then spent = EXACT end
  if spent < before then s[first + 6] = s[first + 6] + 1 end
  s[at + 1], s[at + 2] = spent, left > 0 and left or 0
  return spent
end
