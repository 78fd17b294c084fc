-- What settle.lua and replace.lua share: the end of one reservation. What was claimed is replaced by what was used, exactly once. The
-- twin of settle in limit/decide.rs.
--
-- Arguments of an end, in this order:
--   reservation id, number of lines, then for each:
--     key index, limit, claimed, actual, booked (period start or slot in seconds), forgive ('1' or '0'),
--     'b' capacity gain unit | 'w' limit | 'm' cap and four period starts in seconds
-- Its keys are the first four of the script:
--   1     holds of the customer (hash: reservation -> hold record, see claims.lua)
--   2, 3  how reservations of the even and of the odd hours ended (hash: reservation -> end; field `hour`: which hour)
--   4     holds of the customer that a sweeper booked (hash: reservation -> tombstone, see sweep.lua)
--
-- An end is remembered for one to two hours, longer than anything is replayed. Its first letter says how it came: `s` settled.

local HOUR = 3600000000

-- === read ===

local function read_end()
  local e = { reservation = text(), lines = {} }
  for i = 1, number() do
    local c = {}
    c.key, c.limit, c.claimed, c.actual, c.booked, c.forgive = number(), text(), number(), number(), number(), text() == '1'
    rule(c)
    e.lines[i] = c
  end
  return e
end

-- What is known of the reservation.
local function read_known(e, now)
  e.hour = floor(now / HOUR)
  e.ends = KEYS[2 + e.hour % 2]
  e.hold = read('HGET', KEYS[1], e.reservation)
  e.lost = read('HGET', KEYS[4], e.reservation)
  local ended = read('HMGET', e.ends, e.reservation, 'hour') or {}
  local earlier = read('HGET', KEYS[3 - e.hour % 2], e.reservation)
  e.begun = tonumber(ended[2] or nil)
  -- It was settled before: there is nothing left to do.
  e.over = not e.hold and not e.lost and (ended[1] or earlier) and true
end

-- === check ===

-- Books what was used into `states`, so that whoever decides next decides as if it had happened. The lines that are to be written.
local function settle(e, states, now)
  -- What a sweeper booked, by key, limit and period. The first line of each takes it back.
  local swept = {}
  for key, limit, start, booked in gmatch(e.lost or '', PART) do
    local part = concat({ key, limit, start }, ' ')
    swept[part] = (swept[part] or 0) + tonumber(booked)
  end

  -- A state that a rule of another kind keeps (the plan changed) stays: what there was to correct is gone.
  local kept = {}
  for _, c in ipairs(e.lines) do
    local kind = kind_of(states[c.key][c.limit])
    if not kind or kind == c.kind then kept[#kept + 1] = c end
  end

  for _, c in ipairs(kept) do
    open(c, states, now)
    if c.kind == 'b' then
      c:correct(c.claimed, c.actual, c.forgive)
    elseif c.kind == 'w' then
      c:correct(c.claimed, c.actual, now, c.booked)
    else
      local part = format('%s %s %.0f', KEYS[c.key], c.limit, c.booked)
      local booked = swept[part]
      if booked then
        c:settle(c.booked, 0, c.actual, booked)
        swept[part] = 0
      else
        c:settle(c.booked, e.hold and c.claimed or 0, c.actual, 0)
      end
    end
    states[c.key][c.limit] = c:pack()     -- a second line of the same limit goes on from here
  end
  return kept
end

-- === write ===

-- Remembers that it ended.
local function write_end(e)
  if e.hold then redis.call('HDEL', KEYS[1], e.reservation) end
  if e.lost then redis.call('HDEL', KEYS[4], e.reservation) end
  replace_foreign(e.ends)
  -- Two hours ago this hash began; what it remembers is past any replay. (An hour ahead of ours is a clock that was set back.)
  if e.begun and e.begun < e.hour then redis.call('DEL', e.ends) end
  local hour = max(e.begun or 0, e.hour)
  redis.call('HSET', e.ends, e.reservation, 's', 'hour', format('%.0f', hour))
  keep(e.ends, 2 * HOUR_MS)
end

