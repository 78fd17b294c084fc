-- What settle.lua and replace.lua share: the end of one reservation. What was claimed is replaced by what was used, exactly once. The
-- twin of settle in limit/decide.rs.
--
-- An end is four arguments: its numbers, the reservation id, the same as 16 bytes, and what its hold record has behind the deadline if
-- everything is as the gateway knows it (so that in most cases nothing of it need be read). The numbers:
--   places of four keys:
--     holds of the customer (hash: reservation -> hold record, see claims.lua)
--     how reservations of the even and of the odd hours ended (hashes: reservation as 16 bytes, which are looked
--     through faster -> end; field `hour`: which hour)
--     holds of the customer that a sweeper booked (hash: reservation -> tombstone, see sweep.lua)
--   1: rates were charged as far as is known, 0: they may not have been (a cluster: the other group of books has the budgets, and did
--     not know the hold),
--   number of lines, then the lines as states.lua has them. What is at 3 to 6 of each:
--     3 claimed, 4 actual, 5 booked (period start or slot in seconds), 6 forgive (1 or 0)
--
-- An end is remembered for one to two hours, longer than anything is replayed. Its letter says how it came: `s` settled, `u` settled
-- without a hold that should have been known, so that rates were not refunded.

local HOUR = 3600000000

-- === read ===

local function read_end()
  local n = numbers()
  return {
    n = n, lines = n[6], holds = KEYS[n[1]], even = KEYS[n[2]], odd = KEYS[n[3]], lost_in = KEYS[n[4]], charged = n[5] == 1,
    reservation = text(), short = text(), as_claimed = text(), repaired = 0, left = {},
  }
end

-- Where the first line stands.
local FIRST_LINE = 7

-- Whether a line is one of a budget.
local function has_budget(e)
  local n, i = e.n, FIRST_LINE
  for _ = 1, e.lines do
    if n[i + 2] == BUDGET then return true end
    i = i + LENGTH[n[i + 2]]
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
local function read_known(e, now)
  local hour = now / HOUR
  e.hour = hour - hour % 1
  local other
  if e.hour % 2 == 0 then e.ends, other = e.even, e.odd else e.ends, other = e.odd, e.even end
  e.hold = read('HGET', e.holds, e.reservation)
  local ended = read('HMGET', e.ends, e.short, 'hour') or {}
  local earlier = read('HGET', other, e.short)
  e.begun = tonumber(ended[2] or nil)
  e.again = ended[1] or earlier

  -- Most holds are just what the lines say. (Then no sweeper has booked any of it, or it would not be held.)
  local parts = e.hold and not e.again and find(e.hold, '|', 1, true)
  if parts and sub(e.hold, parts) == e.as_claimed then return end
  e.lost = read('HGET', e.lost_in, e.reservation)
  e.over = e.again and not e.hold and not e.lost
  -- Rates that may never have been charged are not refunded: what claims budgets has a hold, or had one.
  if not e.hold and not e.lost and has_budget(e) then e.charged = false end
  if e.again then e.lines = 0 end
  e.held, e.swept = sums_of(e.hold), sums_of(e.lost)
end

-- === check ===

-- All that is held of a part, and all that a sweeper booked of it; from then on nothing is.
local function taken_of(e, part)
  local held, swept = e.held[part] or 0, e.swept[part] or 0
  e.held[part], e.swept[part] = nil, nil
  return held, swept
end

-- Gives back what is held beyond what the lines mention, and takes back what a sweeper booked of it.
local function give_back(e)
  for _, sums in ipairs({ e.held, e.swept }) do
    for part in pairs(sums) do
      local key, name, start = match(part, '^(%S+) (%S+) (%d+)$')
      local place, limit = place_of(key), limit_named(name)
      local s = limit and stored[place][limit]
      local held, swept = taken_of(e, part)
      if s and s[2] == BUDGET then
        settle_budget(s, tonumber(start), held, 0, swept)
        put(place, s, 0)        -- its key knows how long it lives
      end
    end
  end
end

-- Books what was used, so that whoever decides next decides as if it had happened.
local function settle(e, now)
  local n, i, charges = e.n, FIRST_LINE, e.charged
  for _ = 1, e.lines do
    local key, limit, kind, claimed, actual, booked = n[i], n[i + 1], n[i + 2], n[i + 3], n[i + 4], n[i + 5]
    local s = stored[key][limit]
    -- A state that a rule of another kind keeps (the plan changed) stays: what there was to correct is gone.
    local goes = not s or s[2] == kind
    if kind == BUDGET then
      local spent
      if goes then
        local start, spent_now, held_now, start_before, spent_before, held_before, generation, ends, repaired = open_budget(s, n, i, now)
        if repaired then e.repaired = e.repaired + 1 end
        s = put_budget(key, limit, start, spent_now, held_now, start_before, spent_before, held_before, generation, ends, now)
        local held, swept = claimed, 0
        -- The first line of each gives back what is held, or takes back what a sweeper booked: that, whatever is claimed.
        if e.held then held, swept = taken_of(e, format('%s %s %d', KEYS[key], LIMITS[limit], booked)) end
        spent = settle_budget(s, booked, held, actual, swept)
      end
      e.left[#e.left + 1] = spent and { spent, s[9] } or { 0, 0 }
    elseif goes then
      local used = actual
      if not charges and used < claimed then used = claimed end
      if kind == BUCKET then
        local gain, unit = n[i + 8], n[i + 9]
        local full = n[i + 7] * unit
        local level, at, held = open_bucket(s, full, gain, unit, now)
        if n[i + 10] == 1 then
          level, held = settled_mirror(level, held, full, unit, charges and claimed or 0, actual)
        else
          level = corrected(level, full, unit, claimed, used, n[i + 6] == 1)
        end
        put_bucket(key, limit, level, at, held, full, gain, unit)
      else
        local seconds, amounts, at = open_window(s, now)
        correct_slots(seconds, amounts, claimed, used, now, booked)
        put_window(key, limit, seconds, amounts, at, now)
      end
    end
    i = i + LENGTH[kind]
  end
  if e.held then give_back(e) end
end

-- === write ===

-- Ends' hashes that this call began anew.
local begun = {}

-- Remembers that it ended.
local function write_end(e, now)
  if e.hold then redis.call('HDEL', e.holds, e.reservation) end
  if e.lost then redis.call('HDEL', e.lost_in, e.reservation) end
  replace_foreign(e.ends)
  local since = begun[e.ends] or e.begun
  -- Two hours ago this hash began; what it remembers is past any replay. (An hour ahead of ours is a clock that was set back.)
  if since and since < e.hour then redis.call('DEL', e.ends) end
  local letter = e.again or (e.charged and 's' or 'u')
  if since == e.hour then
    redis.call('HSET', e.ends, e.short, letter)
  else
    since = math.max(since or 0, e.hour)
    redis.call('HSET', e.ends, e.short, letter, 'hour', format('%d', since))
    -- Two hours after the last end that it may have.
    redis.call('PEXPIRE', e.ends, format('%d', ((since + 1) * HOUR - now) / 1000 + 2 * HOUR_MS))
  end
  begun[e.ends] = since
end

