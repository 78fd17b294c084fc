-- What admit.lua and replace.lua share: a request's claims, read, decided in one step, and taken. The twin of limit/decide.rs.
--
-- Arguments of an admission, in this order:
--   reservation id, customer, lease in microseconds,
--   mode ('t' take; 'p' take for now: unless it is confirmed, sweep.lua gives it back; 'r' refused already in another call),
--   microseconds for which the request waits for limits that are claimed in another call,
--   elastic claim: fixed, per token (pico-dollars; 0: not elastic), wanted, floor (output caps),
--   number of claims, then for each:
--     key index, limit, measure ('m' message, '$' money, '-' other), ceiling ('1' or '0'), amount, max_wait in microseconds,
--     'b' capacity gain unit mirrors ('1' or '0') | 'w' limit | 'm' cap and four period starts in seconds
-- Its reply, integers: now, admitted (1 or 0), start_in in microseconds, granted output cap (-1: as wanted), then for each claim:
--   outcome, its wait in microseconds, used, held, remaining, reset_in in microseconds, booked
-- and behind them all, what limits.lua calls the floor: how many budgets were repaired, and for each claim the generation (0: no budget)
--
-- Hold record: <deadline>|<key> <limit> <period start> <amount>|...   one part per budget: all that sweep.lua needs to book it.
-- Between deadline and parts renew.lua adds a space and the nano-dollars metered so far, where it knows them. A space and `p` there
-- mark a hold that is not confirmed; renew.lua confirms it.
-- A reservation that claims no budget leaves none: there would be nothing to book.

local DEFER_ABOVE = 1000000             -- whoever waits longer for its own limits claims the ceiling at its start time

-- === read ===

local function read_admission()
  local a = { claims = {}, budgets = 0 }
  a.reservation, a.customer, a.lease = text(), text(), number()
  a.mode, a.waits = text(), number()
  a.fixed, a.per_token, a.wanted, a.floor = number(), number(), number(), number()
  for i = 1, number() do
    local c = {}
    c.key, c.limit, c.measure, c.ceiling, c.amount, c.max_wait = number(), text(), text(), text() == '1', number(), number()
    rule(c)
    a.claims[i] = c
    if c.kind == 'm' then a.budgets = a.budgets + 1 end
  end
  return a
end

-- What is known of the reservation and of its customer: keys 1 and `leases` of the script.
local function read_hold(a, leases)
  a.leases = leases
  if a.budgets == 0 then return end
  a.hold = read('HGET', KEYS[1], a.reservation)
  a.indexed = read('ZSCORE', leases, a.customer)
end

-- === check ===

-- The largest output cap, at most the wanted one, whose cost is within `room` nano-dollars.
local function affordable(a, room)
  if room >= 9007199254741 then return a.wanted end       -- more than any elastic claim costs (2^53 pico-dollars)
  local left = room * 1000 - a.fixed                      -- below 2^53
  if left < 0 then return nil end
  return min(floor(left / a.per_token), a.wanted)
end

-- Lowers the dollar claims to the largest output cap that every dollar limit affords, if one of them is spent too far.
local function shrink(a)
  local granted, below_floor = a.wanted, false
  for _, c in ipairs(a.claims) do
    if c.measure == '$' and c.outcome == EXHAUSTED then
      local room = max(c.cap - c.current.spent, 0)
      local tokens = affordable(a, max(room - c.current.held, 0))
      if tokens and tokens >= a.floor then
        granted = min(granted, tokens)
        c.outcome = FITS        -- should another limit refuse, that one is the cause: this one affords a shorter answer
      else
        below_floor = true
        -- Without the requests in flight the floor would fit: their settlement may make room.
        tokens = affordable(a, room)
        if tokens and tokens >= a.floor then c.outcome = IN_FLIGHT end
      end
    end
  end
  if below_floor or granted == a.wanted then return -1 end
  local amount = ceil((a.fixed + a.per_token * granted) / 1000)     -- at most 2^53 pico-dollars, as `wanted` costs
  for _, c in ipairs(a.claims) do
    if c.measure == '$' then
      c.amount = amount
      c.outcome = c.current.spent + c.current.held + amount <= c.cap and FITS or IN_FLIGHT
    end
  end
  return granted
end

-- Decides all claims over these states; writes nothing.
local function decide(a, states, now)
  for _, c in ipairs(a.claims) do
    open(c, states, now)
    c.outcome, c.wait = c:fit(now, c.amount, c.max_wait)
  end
  a.granted = a.per_token > 0 and shrink(a) or -1

  local own_wait = a.waits
  for _, c in ipairs(a.claims) do
    if not c.ceiling and c.outcome == STARTS then own_wait = max(own_wait, c.wait) end
  end
  a.admitted, a.start_in = a.mode ~= 'r', 0
  for _, c in ipairs(a.claims) do
    if c.ceiling and own_wait > DEFER_ABOVE then c.outcome, c.wait = DEFERRED, 0 end
    if c.outcome == STARTS then
      a.start_in = max(a.start_in, c.wait)
    elseif c.outcome ~= FITS and c.outcome ~= DEFERRED then
      a.admitted = false
    end
  end
end

-- === write ===

-- Takes what was admitted, or of a refused request only the message it was. The claims that are to be written: those, and budgets that
-- were repaired.
local function take(a, now)
  local taken = {}
  a.held = {}
  for _, c in ipairs(a.claims) do
    local passes = c.outcome == FITS or c.outcome == STARTS
    local wait = c.outcome == STARTS and c.wait or 0
    if passes and (a.admitted or c.measure == 'm') then
      c:take(c.amount, now + wait)
      taken[#taken + 1] = c
      if c.kind == 'm' then
        a.held[#a.held + 1] = format('|%s %s %.0f %.0f', KEYS[c.key], c.limit, c.current.start, c.amount)
      end
    elseif c.repaired then
      taken[#taken + 1] = c     -- as it was found, repaired
    end
  end
  return taken
end

local function write_hold(a, now)
  if #a.held == 0 then return end
  -- A reservation may claim more later: its record then grows.
  local deadline, before = match(a.hold or '', '^(%d+)(.*)$')
  deadline = max(tonumber(deadline or 0), now + a.lease)
  if a.mode == 'p' then
    before = before or ' p'     -- a hold that is confirmed stays so
  elseif before then
    before = string.gsub(before, '^ p', '')
  end
  replace_foreign(KEYS[1])
  redis.call('HSET', KEYS[1], a.reservation, format('%.0f', deadline) .. (before or '') .. concat(a.held))
  keep(KEYS[1], ceil(a.lease / 1000) + 2 * DAY_MS)
  index_hold(a.leases, a.customer, a.indexed, deadline, now)
end

-- === reply ===

local function decision(a, now)
  local reply = { now, a.admitted and 1 or 0, a.admitted and a.start_in or 0, a.admitted and a.granted or -1 }
  for _, c in ipairs(a.claims) do
    local used, held, remaining, reset_in, booked = c:stands(now, c.outcome == STARTS and c.wait or 0)
    local n = #reply
    reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = c.outcome, c.wait, used, held
    reply[n + 5], reply[n + 6], reply[n + 7] = remaining, reset_in, booked
  end
  reply[#reply + 1] = repaired
  for _, c in ipairs(a.claims) do reply[#reply + 1] = c.generation or 0 end
  return reply
end

