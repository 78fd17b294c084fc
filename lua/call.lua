-- The limits that a call is about, over states.lua and limits.lua. However many requests of a call claim a limit, it is told once and
-- opened once: brought up to the present, from where each request goes on from what the ones before it left. It is written once, at the
-- end.
--
-- In the numbers of a call stand, one behind the other: how many rules there are, how many limits, whether any limit is told twice (1 or
-- 0: under different rules, or since one admission claims it twice), the rules, the limits in the order of their keys and numbers.
--   rule    1 kind, 2 max_wait in microseconds, 3 measure (1 message, 2 money, 0 other), 4 ceiling (1 or 0), 5 forgive (1 or 0), then by kind
--           'b'  6 capacity, 7 gain, 8 unit, 9 mirrors (1 or 0)      capacity times unit is at most 2^51, or the gateway had refused it
--           'w'  6 cap
--           'm'  6 cap, 7 to 10 four period starts in seconds
--   limit   place of its key, its number (see LIMITS), its rule; of a budget then what the gateway last saw spent: period start, generation,
--           amount (zeros where it saw nothing)
--
-- A table access is what most of a script's time goes into, and a call of a function is four of them; hence the numbered places, and
-- what is spelled out here for the usual case.

local RULE = { [BUCKET] = 9, [WINDOW] = 6, [BUDGET] = 10 }

-- Each is a list: 1 place of its key, 2 number, 3 rule, 4 how this list stands (CLOSED, OPEN, CHANGED: taken from, so that it is to be
-- written), 5 whether a rule of another kind keeps what is stored (the plan changed), then by kind what is open
--   'b'  6 level, 7 at, 8 held
--   'w'  6 seconds, 7 amounts, 8 at
--   'm'  6 to 12 as it is stored, 13 whether it was repaired, 14 where it stands what the gateway saw, 15 what begins its part of a hold
--        record
-- A rule has behind its numbers: 'b' 10 units in a full bucket, 11 units that an hour earns; 'm' 11 start and 12 end of the present period
-- in seconds, 16 milliseconds that it must live, and of a part of a hold record 13 number and 14 period start, 15 what stands between key
-- and amount.
local CLOSED, OPEN, CHANGED = 0, 1, 2
local limits = {}

-- Whether any is told twice. Then each is opened whenever it is claimed, and what was changed is stored at once.
local twins = false

local function open(limit, now)
  local place, number, rule = limit[1], limit[2], limit[3]
  local s, kind = stored[place][number], rule[1]
  limit[4], limit[5] = OPEN, s and s[2] ~= kind
  if kind == BUCKET then
    limit[6], limit[7], limit[8] = open_bucket(s, rule[10], rule[7], rule[8], now)
  elseif kind == BUDGET then
    local period, generation, amount = unpack_from('<ddd', packed, limit[14])
    limit[6], limit[7], limit[8], limit[9], limit[10], limit[11], limit[12], limit[13] =
      open_budget(s, rule[11], period, generation, amount)
  else
    limit[6], limit[7], limit[8] = open_window(s, now)
  end
end

-- The deciding clock picks the period among the boundaries.
local function read_rule(now)
  local kind = unpack_from('<d', packed, behind)
  local rule = numbers(RULE[kind])
  if kind == BUCKET then
    rule[10], rule[11] = rule[6] * rule[8], rule[7] * 1000 * HOUR_MS
  elseif kind == BUDGET then
    local begins, ends = rule[7], rule[8]
    if now >= ends * 1000000 then
      begins, ends = ends, rule[9]
      if now >= ends * 1000000 then begins, ends = ends, rule[10] end
    end
    -- For its period and the longest stream that may still settle in it.
    local left = (ends * 1000000 - now) / 1000
    left = (left > 0 and left + -left % 1 or 0) + 2 * DAY_MS
    rule[11], rule[12], rule[13], rule[14], rule[15], rule[16] = begins, ends, 0, 0, '', left
  end
  return rule
end

local function read_limits(now)
  local counts, rules = numbers(3), {}
  for i = 1, counts[1] do rules[i] = read_rule(now) end
  twins = counts[3] == 1
  for i = 1, counts[2] do
    local place, number, rule, at = unpack_from('<ddd', packed, behind)
    rule = rules[rule]
    local s, kind, limit = stored[place][number], rule[1], nil
    if kind == BUCKET then
      behind = at
      local level, gain = s and s[3], rule[7]
      -- What is earned is exact up to 2^53, and from a level that is no debt more than that fills the bucket.
      if s and s[2] == BUCKET and s[5] == rule[8] and s[6] == 0 and level >= 0 and s[4] <= now then
        level = level + (now - s[4]) * gain
        limit = { place, number, rule, OPEN, false, level < rule[10] and level or rule[10], now, 0 }
      else
        limit = { place, number, rule, CLOSED, false, 0, 0, 0 }
      end
    elseif kind == BUDGET then
      behind = at + 24
      local period, generation, amount = unpack_from('<ddd', packed, at)
      -- Of the present period, and with as much spent as the gateway saw.
      if s and s[2] == BUDGET and s[3] == rule[11] and (period == 0 or period == s[3] and generation == s[9] and amount <= s[4]) then
        limit = { place, number, rule, OPEN, false, s[3], s[4], s[5], s[6], s[7], s[8], s[9], false, at, false }
      else
        limit = { place, number, rule, CLOSED, false, 0, 0, 0, 0, 0, 0, 0, false, at, false }
      end
    else
      behind = at
      limit = { place, number, rule, CLOSED, false, 0, 0, 0 }
    end
    if twins then limit[4] = CLOSED end
    limits[i] = limit
  end
end

-- How long a limit must live, in milliseconds.
local function need_of(limit, now)
  local rule = limit[3]
  local kind = rule[1]
  if kind == BUDGET then return rule[16] end
  -- Until a bucket is full it must not be forgotten: one never seen is full. One hour at least.
  if kind == BUCKET and rule[10] - limit[6] <= rule[11] then return HOUR_MS end
  local need = (kind == BUCKET and full_in(limit[6], rule[10], rule[7]) or empty_in(limit[6], now)) / 1000
  return need > HOUR_MS and need + -need % 1 or HOUR_MS
end

-- From then on what is stored is what counts, until the limit is opened again.
local function close(limit, now)
  local place, number, kind = limit[1], limit[2], limit[3][1]
  local s = { number, kind }
  if kind == BUCKET then
    s[3], s[4], s[5], s[6] = limit[6], limit[7], limit[3][8], limit[8]
  elseif kind == BUDGET then
    for j = 3, 9 do s[j] = limit[j + 3] end
  else
    s[3], s[4], s[5] = limit[8], limit[6], limit[7]
  end
  put(place, s, need_of(limit, now))
  limit[4] = CLOSED
end

local function close_all(now)
  for i = 1, #limits do
    local limit = limits[i]
    if limit[4] == CHANGED then close(limit, now) end
    limit[4] = CLOSED
  end
end

-- Writes what was changed, straight from the open limits where nothing else was: those of a key stand together.
local function write_limits(now)
  if twins or #changes > 0 then
    close_all(now)
    return write_states(now)
  end
  local i, last, pieces = 1, #limits, {}
  while i <= last do
    local limit = limits[i]
    local place, n, number, changed, need = limit[1], 1, 1, false, 0
    local states, ends = stored[place], highest[place]
    repeat
      while number < limit[2] do
        local s = states[number]
        if s then
          n = n + 1
          pieces[n] = state_packed(s)
        end
        number = number + 1
      end
      local rule = limit[3]
      local kind = rule[1]
      if limit[4] ~= CHANGED or kind == WINDOW then
        local s = states[number]
        if limit[4] == CHANGED then s = { number, WINDOW, limit[8], limit[6], limit[7] } end
        if s then
          n = n + 1
          pieces[n] = state_packed(s)
        end
      elseif kind == BUCKET then
        n = n + 1
        pieces[n] = pack('<Hdddd', number + 256 * BUCKET, limit[6], limit[7], rule[8], limit[8])
      else
        n = n + 1
        pieces[n] = pack('<Hddddddd', number + 256 * BUDGET, limit[6], limit[7], limit[8], limit[9], limit[10], limit[11], limit[12])
      end
      if limit[4] == CHANGED then
        changed = true
        local lives = need_of(limit, now)
        if lives > need then need = lives end
      end
      number, i = number + 1, i + 1
      limit = limits[i]
    until i > last or limit[1] ~= place
    if changed then
      for further = number, ends do
        local s = states[further]
        if s then
          n = n + 1
          pieces[n] = state_packed(s)
        end
      end
      write_value(place, pieces, n, need, now)
    end
  end
end

-- What is answered, in numbers, so many of them.
local answers, answered = {}, 0

local function packed_answers()
  if answered <= 1000 then return pack(shape_of(answered), unpack(answers, 1, answered)) end
  local packs = {}
  for first = 1, answered, 1000 do
    local last = math.min(first + 999, answered)
    packs[#packs + 1] = pack(shape_of(last - first + 1), unpack(answers, first, last))
  end
  return concat(packs)
end
