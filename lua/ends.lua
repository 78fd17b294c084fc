-- What settle.lua and replace.lua share: the end of one reservation. What was claimed is replaced by what was used, exactly once. The
-- twin of settle in limit/decide.rs.
--
-- Arguments of an end, in this order:
--   reservation id, number of lines, then for each:
--     key index, limit, claimed, actual, booked (period start or slot in seconds), forgive ('1' or '0'),
--     'b' capacity gain unit mirrors ('1' or '0') | 'w' limit | 'm' cap and four period starts in seconds
-- Its keys are the first four of the script:
--   1     holds of the customer (hash: reservation -> hold record, see claims.lua)
--   2, 3  how reservations of the even and of the odd hours ended (hash: reservation -> end; field `hour`: which hour)
--   4     holds of the customer that a sweeper booked (hash: reservation -> tombstone, see sweep.lua)
--
-- An end is remembered for one to two hours, longer than anything is replayed. Its letter says how it came: `s` settled, `u` settled
-- without a hold that should have been known, so that rates were not refunded.

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

-- What is known of the reservation. What it holds (or a sweeper booked) and no line mentions becomes a line that has used nothing; one
-- that was settled before keeps only such lines, so that nothing of it is booked again. Before the states are read.
local function read_known(e, now)
  e.hour = floor(now / HOUR)
  e.ends = KEYS[2 + e.hour % 2]
  e.hold = read('HGET', KEYS[1], e.reservation)
  e.lost = read('HGET', KEYS[4], e.reservation)
  local ended = read('HMGET', e.ends, e.reservation, 'hour') or {}
  local earlier = read('HGET', KEYS[3 - e.hour % 2], e.reservation)
  e.begun = tonumber(ended[2] or nil)
  e.again = ended[1] or earlier
  e.over = e.again and not e.hold and not e.lost

  -- Rates that may never have been charged are not refunded: what claims budgets has a hold, or had one.
  e.charged = true
  for _, c in ipairs(e.lines) do
    if c.kind == 'm' and not e.hold and not e.lost then e.charged = false end
  end
  if e.again then e.lines = {} end

  e.held, e.swept = {}, {}
  local index, mentioned = {}, {}
  for i, key in ipairs(KEYS) do index[key] = i end
  for _, c in ipairs(e.lines) do
    if c.kind == 'm' then mentioned[format('%s %s %.0f', KEYS[c.key], c.limit, c.booked)] = true end
  end
  for _, known in ipairs({ { e.hold or '', e.held }, { e.lost or '', e.swept } }) do
    local record, sums = known[1], known[2]
    for key, limit, start, amount in gmatch(record, PART) do
      local part = concat({ key, limit, start }, ' ')
      sums[part] = (sums[part] or 0) + tonumber(amount)
      if not mentioned[part] then
        mentioned[part] = true
        if not index[key] then
          KEYS[#KEYS + 1] = key
          index[key] = #KEYS
        end
        e.lines[#e.lines + 1] = { key = index[key], limit = limit, kind = 'm', actual = 0, booked = tonumber(start) }
      end
    end
  end
end

-- === check ===

-- Books what was used into `states`, so that whoever decides next decides as if it had happened. The lines that are to be written.
local function settle(e, states, now)
  -- A state that a rule of another kind keeps (the plan changed) stays: what there was to correct is gone. So it is where there is none
  -- of what is only given back.
  local kept = {}
  for _, c in ipairs(e.lines) do
    local kind = kind_of(states[c.key][c.limit])
    if kind == c.kind or (not kind and (c.kind ~= 'm' or c.bounds)) then kept[#kept + 1] = c end
  end

  for _, c in ipairs(kept) do
    local used = c.actual
    if c.kind ~= 'm' and not e.charged then used = max(used, c.claimed) end
    if c.kind == 'b' then
      open(c, states, now)
      if c.mirrors then c:settle(e.charged and c.claimed or 0, c.actual) else c:correct(c.claimed, used, c.forgive) end
    elseif c.kind == 'w' then
      open(c, states, now)
      c:correct(c.claimed, used, now, c.booked)
    else
      if c.bounds then open(c, states, now) else recall(c, states) end
      -- The first line of each gives back what is held, or takes back what a sweeper booked: that, whatever is claimed.
      local part = format('%s %s %.0f', KEYS[c.key], c.limit, c.booked)
      local _, spent = c:settle(c.booked, e.held[part] or 0, c.actual, e.swept[part] or 0)
      c.spent = spent
      e.held[part], e.swept[part] = nil, nil
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
  redis.call('HSET', e.ends, e.reservation, e.again or (e.charged and 's' or 'u'), 'hour', format('%.0f', hour))
  keep(e.ends, 2 * HOUR_MS)
end

