-- What settle.lua and replace.lua share: the end of one reservation. What was claimed is replaced by what was used, exactly once. The
-- twin of settle in limit/decide.rs.
--
-- An end is three texts: the reservation id, the same as 16 bytes, and what its hold record has behind the deadline if everything is as
-- the gateway knows it (so that in most cases nothing of it need be read). Among the numbers:
--   places of three keys:
--     holds of the customer (hash: reservation -> hold record, see claims.lua)
--     how reservations ended that were made in the same moment, whoever's they are (hash: reservation as 16 bytes -> end)
--     holds of the customer that a sweeper booked (hash: reservation -> tombstone, see sweep.lua)
--   1: rates were charged as far as is known, 0: they may not have been (a cluster: the other group of books has the budgets, and did
--     not know the hold),
--   number of lines that change anything, then of each its limit (see call.lua), claimed, actual, booked (period start or slot in
--   seconds).
--
-- An end is remembered for an hour at least, longer than anything is replayed. Its letter says how it came: `s` settled, `u` settled
-- without a hold that should have been known, so that rates were not refunded.

-- === read ===

-- The fields that are not here yet (again, hold, lost, held, swept) read as nil, which is what most of them stay.
local function read_end()
  local holds, ends, lost_in, charged, count, at = unpack_from('<ddddd', packed, behind)
  behind = at
  return {
    lines = numbers(4 * count), count = count, holds = KEYS[holds], ends = KEYS[ends], lost_in = KEYS[lost_in], charged = charged == 1,
    reservation = text(), short = text(), as_claimed = text(), repaired = 0,
  }
end

-- Whether a line is one of a budget.
local function has_budget(e)
  for i = 1, 4 * e.count, 4 do
    if limits[e.lines[i]][3][1] == BUDGET then return true end
  end
  return false
end

-- The sums of a hold record or a tombstone: of what each part ('<key> <limit> <period start>') has.
local function sums_of(record)
  local sums = {}
  for key, limit, start, amount in gmatch(record or '', PART) do
    local part = concat({ key, limit, start }, ' ')
    sums[part] = (sums[part] or 0) + tonumber(amount)
    place_of(key)
  end
  return sums
end

-- What is known of the reservation. One that was settled before has no lines any more, so that nothing of it is booked twice; what it holds
-- again is given back.
local function read_known(e)
  local hold, again = read('HGET', e.holds, e.reservation), read('HGET', e.ends, e.short)
  e.hold, e.again = hold, again

  -- Most holds are just what the lines say. (Then no sweeper has booked any of it, or it would not be held.)
  local as_claimed = e.as_claimed
  if hold and not again then
    local behind_deadline = find(hold, '|', 1, true)
    if behind_deadline and #hold - behind_deadline + 1 == #as_claimed and find(hold, as_claimed, behind_deadline, true) then
      return
    end
  end
  e.lost = read('HGET', e.lost_in, e.reservation)
  e.over = again and not hold and not e.lost            -- nothing is left of it
  -- Rates that may never have been charged are not refunded: what claims budgets has a hold, or had one.
  if not hold and not e.lost and has_budget(e) then e.charged = false end
  if again then e.count = 0 end
  e.held, e.swept = sums_of(hold), sums_of(e.lost)
end

-- === check ===

-- All that is held of a part, and all that a sweeper booked of it; from then on nothing is.
local function taken_of(e, part)
  local held, swept = e.held[part] or 0, e.swept[part] or 0
  e.held[part], e.swept[part] = nil, nil
  return held, swept
end

-- Gives back what is held beyond what the lines mention, and takes back what a sweeper booked of it.
local function give_back(e, now)
  for _, sums in ipairs({ e.held, e.swept }) do
    for part in pairs(sums) do
      local key, name, start = match(part, '^(%S+) (%S+) (%d+)$')
      local place, number = place_of(key), limit_named(name)
      close_all(now)
      local s = number and stored[place][number]
      local held, swept = taken_of(e, part)
      if s and s[2] == BUDGET then
        settle_budget(s, 3, tonumber(start), held, 0, swept)
        put(place, s, 0)        -- its key knows how long it lives
      end
    end
  end
end

-- Books what was used, so that whoever decides next decides as if it had happened. What is answered then: how many budgets were repaired,
-- and of each budget what is spent in its period and its generation.
local function settle(e, now)
  local lines, charges, held, at = e.lines, e.charged, e.held, answered + 1
  for i = 1, 4 * e.count, 4 do
    local limit, claimed, actual, booked = limits[lines[i]], lines[i + 1], lines[i + 2], lines[i + 3]
    local rule = limit[3]
    local kind = rule[1]
    if limit[4] == CLOSED or twins then open(limit, now) end
    -- A state that a rule of another kind keeps (the plan changed) stays: what there was to correct is gone.
    local goes = not limit[5]
    if kind == BUDGET then
      local spent
      if goes then
        if limit[13] then e.repaired, limit[13] = e.repaired + 1, false end
        limit[4] = CHANGED
        if not held and booked == limit[6] then
          -- As settle_budget does it: nothing becomes less, so the generation stays.
          local left = limit[8] - claimed
          spent = limit[7] + actual
          if spent > EXACT then spent = EXACT end
          limit[7], limit[8] = spent, left > 0 and left or 0
        else
          local in_flight, swept = claimed, 0
          -- The first line of each gives back what is held, or takes back what a sweeper booked: that, whatever is claimed.
          if held then in_flight, swept = taken_of(e, format('%s %s %d', KEYS[limit[1]], LIMITS[limit[2]], booked)) end
          spent = settle_budget(limit, 6, booked, in_flight, actual, swept)
        end
      end
      answers[at + 1], answers[at + 2] = spent or 0, spent and limit[12] or 0
      at = at + 2
    elseif goes then
      local used = actual
      if not charges and used < claimed then used = claimed end
      if kind == BUCKET then
        local unit, full, level = rule[8], rule[10], limit[6]
        if rule[9] ~= 1 and used <= claimed and level >= 0 then
          -- As corrected does it: from a level that is no debt, what would have to be clamped fills the bucket.
          level = level + (claimed - used) * unit
          limit[6] = level < full and level or full
        elseif rule[9] == 1 then
          limit[6], limit[8] = settled_mirror(limit[6], limit[8], full, unit, charges and claimed or 0, actual)
        else
          limit[6] = corrected(limit[6], full, unit, claimed, used, rule[5] == 1)
        end
      else
        correct_slots(limit[6], limit[7], claimed, used, now, booked)
      end
      limit[4] = CHANGED
    end
    if twins and limit[4] == CHANGED then close(limit, now) end
  end
  answers[answered + 1], answered = e.repaired, at
  if held then give_back(e, now) end
end

-- === write ===

-- Remembers that it ended.
local function write_end(e)
  if e.hold then call('HDEL', e.holds, e.reservation) end
  if e.lost then call('HDEL', e.lost_in, e.reservation) end
  replace_foreign(e.ends)
  call('HSET', e.ends, e.short, e.again or (e.charged and 's' or 'u'))
  keep(e.ends, HOUR_MS)
end
