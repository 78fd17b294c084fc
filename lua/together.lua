-- What admit.lua and settle.lua do first: a call in whose requests nothing is unusual, over the sum of what they ask of each limit.
--
-- Requests that are all admitted as they asked, and at once, are so exactly when the sum of their claims fits each limit: claims only ever
-- take. What is left of a limit after each of them is then arithmetic, which the gateway does. And ends that give back or take more change
-- a limit as their sum does, but for what is clamped; see below. So a limit costs the same however many requests are about it, and of a
-- request only its hold is left to do. Whatever else there is (a limit that refuses or makes wait, a window, a damaged or a foreign
-- value, something that was lost, a hold that is not as its gateway knows it) is left to `one_by_one`, which is all that the scripts are
-- without this. Nothing is written before it is known which.
--
-- The last argument is the numbers of this, or '' where the gateway sees that it will not do. In them, behind what admit_together.lua and
-- settle_together.lua read:
--   sorts   number + 256 * kind of a limit, and five numbers of its rule:
--           'b' units in a full bucket, units earned in a microsecond, units per token, mirrors (1 or 0), forgives (1 or 0)
--           'm' cap, four period starts in seconds
--   limits  in the order of their keys and numbers, none of them twice: place of its key, sort, and
--           of an admission   sum of the claims ('b': in units)
--           of ends       'b' how many changes there are beyond the first, the first change in units; then the others. Changes of one
--                             direction that follow each other are one, and are clamped as each of them would be
--                             where it mirrors: sum of what was claimed, sum of what was used, in units
--                         'm' sum of what was claimed, sum of what was used
--           of a budget then: period start in which all of it is booked, and what the gateway last saw spent: period start, generation,
--           amount
--           four zeros behind the last one
--
-- The functions of limits.lua are spelled out here for what is usual; they say why each number is exact. Every byte of a string that a
-- script gets or makes costs eleven instructions (Redis hashes it), a number in one some two hundred: hence few of both.

local KEPT, AS_BUCKET, AS_BUDGET = 10, 34, 58           -- where states begin behind their head; how long a bucket and a budget are

local sums = ARGV[#ARGV]

-- Where the state of limit `h` stands in `raw`, and whether it is there, if not at `p`. The states before it are taken over into `own` as
-- they are; also how many pieces `own` then has. Nil where a state is not as the scripts write them, or of another kind.
local function sought(raw, p, size, h, last, own, n)
  local number, kind, from, found = h % 256, (h - h % 256) / 256, p, false
  last = last % 256
  while p <= size do
    local there, as, long = byte(raw, p, p + 1)
    if as == BUCKET then
      long = AS_BUCKET
    elseif as == BUDGET then
      long = AS_BUDGET
    elseif as == WINDOW and p + 17 <= size then
      long = 18 + 16 * unpack_from('<d', raw, p + 2)
    end
    if not long or not (long >= 18 and p + long <= size + 1) or long % 1 ~= 0 or there <= last then return nil end
    if there == number and as ~= kind then return nil end
    if there >= number then
      found = there == number
      break
    end
    p, last = p + long, there
  end
  if p > from then
    n = n + 1
    own[n] = sub(raw, from, p - 1)
  end
  return p, found, n
end

-- The sorts of limits in the call, and where the limits begin. Of each its number and kind as it is told, and of its rule what is needed:
--   'b' full, gain, unit, mirrors, forgives, units that an hour earns      'm' cap, start of the present period, milliseconds to live
local function read_sorts(count, at, now)
  local sorts = {}
  for i = 1, count do
    local h, a, b, c, d, e, behind = unpack_from('<dddddd', sums, at)
    if h < 256 * BUDGET then
      sorts[i] = { h, a, b, c, d == 1, e == 1, b * 1000 * HOUR_MS }
    else
      local begins, ends = b, c
      if now >= ends * 1000000 then
        begins, ends = ends, d
        if now >= ends * 1000000 then begins, ends = ends, e end
      end
      local left = (ends * 1000000 - now) / 1000
      sorts[i] = { h, a, begins, (left > 0 and left + -left % 1 or 0) + 2 * DAY_MS }
    end
    at = behind
  end
  return sorts, at
end

-- The level of a bucket after the changes of its ends, `more` of them beyond the first; and where the numbers go on. As `corrected` has it.
local function after_changes(level, change, more, at, full, forgives)
  while true do
    if change >= 0 then
      level = level + change
      if level > full then level = full end
    else
      local deepest = -EXACT
      if forgives then deepest = level < -full and level or -full end
      level = level + change
      if level < deepest then level = deepest end
    end
    if more == 0 then return level, at end
    change, at = unpack_from('<d', sums, at)
    more = more - 1
  end
end

-- What is to be written under each key: its place, the pieces of its value and how many, until when it is kept, how long it must live.
local changed, values_of, counts, kept_of, needs = {}, {}, {}, {}, {}

-- Opens each limit and takes the sums from it, where `admits`, or else puts what was used in the place of what was claimed. What is
-- answered is added to `answers`: how each stands ('b' level | 'm' spent, held, generation), or, of ends, only budgets: spent, generation.
-- How many answers there are then; nil, and nothing may be written, where anything is unusual.
local function change_limits(values, sorts, at, now, admits, answers)
  local unpack_from, pack, exact, budgets_from = unpack_from, pack, EXACT, 256 * BUDGET
  local answered, keys, place, sort, x, y = #answers, 0, nil, nil, nil, nil
  if admits then
    place, sort, x, at = unpack_from('<ddd', sums, at)
  else
    place, sort, x, y, at = unpack_from('<dddd', sums, at)
  end
  while place > 0 do
    local key, raw = place, values[place]
    local size, p, last, n, own, kept, need = 0, KEPT, 0, 1, { false, false, false, false }, 0, HOUR_MS
    if raw then
      size = #raw
      if size < 9 then return nil end
      local version
      version, kept = unpack_from('<Bd', raw)
      if version ~= 1 or not (kept >= 0 and kept <= exact) then return nil end
    end
    repeat
      sort = sorts[sort]
      local h = sort[1]
      if h < budgets_from then
        local there, level, seen, unit, held, behind
        if p + 33 <= size then there, level, seen, unit, held, behind = unpack_from('<Hdddd', raw, p) end
        if there ~= h and p <= size then
          p, there, n = sought(raw, p, size, h, last, own, n)
          if not p then return nil end
          if there then there, level, seen, unit, held, behind = unpack_from('<Hdddd', raw, p) end
        end
        local full, gain = sort[2], sort[3]
        if there then
          -- Of no debt, of the same plan, and not from a clock that is ahead of this one.
          if not (level >= 0 and level <= exact and seen >= 0 and seen <= now and unit == sort[4] and held >= 0 and held <= exact) then
            return nil
          end
          level, p = level + (now - seen) * gain, behind
          if level > full then level = full end
          if held > 0 then
            -- As open_bucket heals it.
            local refill = gain > 0 and full / gain or 0
            if gain > 0 and now - seen > HEALING * (refill - refill % 1) then held = 0 end
            local beyond = level - (full - held)
            if held > 0 and beyond > 0 then
              local healed = beyond / HEALING
              healed = healed + -healed % 1
              if healed > held then healed = held end
              level, held = level - (beyond - healed), held - healed
            end
          end
        else
          level, unit, held = full, sort[4], 0
        end
        if admits then
          level = level - x
          if level < 0 then return nil end
          if sort[5] then
            held = held + x
            if held > exact then return nil end
          end
          answered = answered + 1
          answers[answered] = level
        elseif sort[5] then
          -- Level and held together are no more than a full bucket, so that what is given back never passes it.
          local given = x < held and x or held
          level, held = level + given - y, held - given
          if level < -exact then return nil end
        else
          level, at = after_changes(level, y, x, at, full, sort[6])
        end
        n = n + 1
        own[n] = pack('<Hdddd', h, level, now, unit, held)
        if full - level > sort[7] then
          local wait = gain > 0 and (full - level) / gain or YEAR
          wait = (wait + -wait % 1) / 1000
          wait = wait + -wait % 1
          if wait > need then need = wait end
        end
      else
        local booked, period, since, floor
        booked, period, since, floor, at = unpack_from('<dddd', sums, at)
        local there, a, b, c, d, e, f, g, behind
        if p + 57 <= size then there, a, b, c, d, e, f, g, behind = unpack_from('<Hddddddd', raw, p) end
        if there ~= h and p <= size then
          p, there, n = sought(raw, p, size, h, last, own, n)
          if not p then return nil end
          if there then there, a, b, c, d, e, f, g, behind = unpack_from('<Hddddddd', raw, p) end
        end
        if there then
          if not (a >= 0 and a <= exact and b >= 0 and b <= exact and c >= 0 and c <= exact and d >= 0 and d <= exact and e >= 0
              and e <= exact and f >= 0 and f <= exact and g >= 0 and g <= exact) then return nil end
          p = behind
        else
          a, b, c, d, e, f, g = 0, 0, 0, 0, 0, 0, 0
        end
        local begins = sort[3]
        if begins > a then a, b, c, d, e, f = begins, 0, 0, a, b, c end
        if a ~= booked or a ~= begins then return nil end
        if period ~= 0 and since >= g then
          local known = period == a and b or period == d and e
          if known and (since > g or known < floor) then return nil end
        end
        if admits then
          c = c + x
          local sum = b + c
          if sum > sort[2] or sum >= exact then return nil end
          answers[answered + 1], answers[answered + 2], answers[answered + 3] = b, c, g
          answered = answered + 3
        else
          b, c = b + y, c - x
          if b >= exact then return nil end
          if c < 0 then c = 0 end
          answers[answered + 1], answers[answered + 2] = b, g
          answered = answered + 2
        end
        n = n + 1
        own[n] = pack('<Hddddddd', h, a, b, c, d, e, f, g)
        if sort[4] > need then need = sort[4] end
      end
      last = h
      if admits then
        place, sort, x, at = unpack_from('<ddd', sums, at)
      else
        place, sort, x, y, at = unpack_from('<dddd', sums, at)
      end
    until place ~= key
    if p <= size then
      p, last, n = sought(raw, p, size, 256 * 256 - 1, last, own, n)
      if not p then return nil end
    end
    keys = keys + 1
    changed[keys], values_of[keys], counts[keys], kept_of[keys], needs[keys] = key, own, n, kept, need
  end
  return answered
end

-- Writes what `change_limits` found. As write_value does it.
local function write_changed(now)
  for i = 1, #changed do
    local own, kept, need = values_of[i], kept_of[i], needs[i]
    if kept < now + need * 1000 then
      kept = now + (need + SLACK_MS) * 1000
      own[1] = pack('<Bd', 1, kept)
      call('SET', KEYS[changed[i]], concat(own, '', 1, counts[i]), 'PX', format('%d', (kept - now) / 1000))
    else
      own[1] = pack('<Bd', 1, kept)
      call('SET', KEYS[changed[i]], concat(own, '', 1, counts[i]), 'KEEPTTL')
    end
  end
end
