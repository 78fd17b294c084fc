-- What admit.lua, replace.lua and look.lua share: a request's claims, read, decided in one step, and taken. The twin of limit/decide.rs.
--
-- An admission is three arguments: its numbers, the reservation id, the customer. The numbers:
--   index of the key of the customer's holds, of the index of leases,
--   mode (0 take; 1 take for now: unless it is confirmed, sweep.lua gives it back; 2 refused already in another call),
--   lease in microseconds, microseconds for which the request waits for limits that are claimed in another call,
--   elastic claim: fixed, per token (pico-dollars; 0: not elastic), wanted, floor (output caps),
--   number of claims, then the claims as states.lua has them. What is at 3 to 6 of each:
--     3 amount, 4 max_wait in microseconds, 5 measure (1 message, 2 money, 0 other), 6 ceiling (1 or 0)
-- The decision on it, packed: now, admitted (1 or 0), start_in in microseconds, granted output cap (-1: as wanted), how many budgets were
-- repaired, then for each claim:
--   outcome, its wait in microseconds, three numbers of how its limit stands, generation (0: no budget)
--   the three: 'b' level, at, 0 | 'w' used, microseconds until it is empty, second it is booked in | 'm' spent, held, start
--
-- Hold record: <deadline>|<key> <limit> <period start> <amount>|...   one part per budget: all that sweep.lua needs to book it.
-- Between deadline and parts renew.lua adds a space and the nano-dollars metered so far, where it knows them. A space and `p` there
-- mark a hold that is not confirmed; renew.lua confirms it.
-- A reservation that claims no budget leaves none: there would be nothing to book.

local DEFER_ABOVE = 1000000             -- whoever waits longer for its own limits claims the ceiling at its start time
local MESSAGE, MONEY = 1, 2

-- Where the first claim stands.
local FIRST = 11

-- Of the claims under decision, by their order: where each stands among the numbers, outcome, wait, amount, and its state as it would be,
-- in the order in which open_bucket, open_window and open_budget give it. Lists of their own, used again for each admission.
local count, places_of, outcomes, waits, amounts = 0, {}, {}, {}, {}
local A, B, C, D, E, F, G, ENDS, REPAIRED = {}, {}, {}, {}, {}, {}, {}, {}, {}

-- === read ===

local function read_admission()
  local n = numbers()
  return { n = n, holds = KEYS[n[1]], leases = KEYS[n[2]], reservation = text(), customer = text(), repaired = 0 }
end

-- When a sweeper would look at the customer anyway.
local function read_index(a)
  a.indexed = read('ZSCORE', a.leases, a.customer)
end

-- === check ===

-- The largest output cap, at most the wanted one, whose cost is within `room` nano-dollars.
local function affordable(n, room)
  local fixed, per_token, wanted = n[6], n[7], n[8]
  if room >= 9007199254741 then return wanted end         -- more than any elastic claim costs (2^53 pico-dollars)
  local left = room * 1000 - fixed                        -- below 2^53
  if left < 0 then return nil end
  return math.min(math.floor(left / per_token), wanted)
end

-- Lowers the dollar claims to the largest output cap that every dollar limit affords, if one of them is spent too far.
local function shrink(n)
  local per_token, wanted, floor = n[7], n[8], n[9]
  local granted, below_floor = wanted, false
  for j = 1, count do
    local i = places_of[j]
    if n[i + 5] == MONEY and outcomes[j] == EXHAUSTED then
      local room, held = math.max(n[i + 7] - B[j], 0), C[j]
      local tokens = affordable(n, math.max(room - held, 0))
      if tokens and tokens >= floor then
        granted = math.min(granted, tokens)
        outcomes[j] = FITS      -- should another limit refuse, that one is the cause: this one affords a shorter answer
      else
        below_floor = true
        -- Without the requests in flight the floor would fit: their settlement may make room.
        tokens = affordable(n, room)
        if tokens and tokens >= floor then outcomes[j] = IN_FLIGHT end
      end
    end
  end
  if below_floor or granted == wanted then return -1 end
  local amount = math.ceil((n[6] + per_token * granted) / 1000)     -- at most 2^53 pico-dollars, as `wanted` costs
  for j = 1, count do
    local i = places_of[j]
    if n[i + 5] == MONEY then
      amounts[j] = amount
      outcomes[j] = B[j] + C[j] + amount <= n[i + 7] and FITS or IN_FLIGHT
    end
  end
  return granted
end

-- Decides all claims over the states as they are; changes none.
local function decide(a, now)
  local n, i, own_wait, exhausted = a.n, FIRST, a.n[5], false
  count = n[10]
  for j = 1, count do
    local s, kind, amount, outcome, wait = stored[n[i]][n[i + 1]], n[i + 2], n[i + 3], FITS, 0
    if kind == BUCKET then
      local capacity, gain, unit = n[i + 7], n[i + 8], n[i + 9]
      local level, at, held = open_bucket(s, capacity * unit, gain, unit, now)
      local missing = amount * unit - level     -- the product is at most what a full bucket has, or it never fits
      if amount > capacity then
        outcome = NEVER
      elseif missing > 0 then
        if gain == 0 then
          outcome = NEVER
        else
          -- It fills from the time of its level on, which a clock that lags has yet to reach.
          wait = missing / gain
          wait = wait + -wait % 1
          if at > now then wait = wait + (at - now) end
          outcome = STARTS
        end
      end
      A[j], B[j], C[j], G[j], REPAIRED[j] = level, at, held, 0, false
    elseif kind == BUDGET then
      local start, spent, held, start_before, spent_before, held_before, generation, ends, repaired = open_budget(s, n, i, now)
      -- Sums above 2^53 may be rounded, but not below 2^53, and no cap is larger.
      local with, cap = spent + amount, n[i + 7]
      if with > cap then
        outcome, exhausted = EXHAUSTED, true
      elseif with + held > cap then
        outcome = IN_FLIGHT
      end
      if repaired then a.repaired = a.repaired + 1 end
      A[j], B[j], C[j], D[j], E[j], F[j], G[j], ENDS[j], REPAIRED[j] =
        start, spent, held, start_before, spent_before, held_before, generation, ends, repaired
    else
      local seconds, slots, at = open_window(s, now)
      if amount > n[i + 7] then
        outcome = NEVER
      else
        wait = math.max(first_fit(seconds, slots, n[i + 7], math.floor(now / 1000000), amount) * 1000000 - now, 0)
        if wait > 0 then outcome = STARTS end
      end
      A[j], B[j], C[j], G[j], REPAIRED[j] = seconds, slots, at, 0, false
    end
    if outcome == STARTS then
      local patience = n[i + 4]
      if wait > patience then
        outcome, wait = REFUSED, wait - patience
      elseif wait > own_wait and n[i + 6] == 0 then
        own_wait = wait
      end
    end
    places_of[j], amounts[j], outcomes[j], waits[j] = i, amount, outcome, wait
    i = i + LENGTH[kind]
  end
  a.granted = exhausted and n[7] > 0 and shrink(n) or -1

  local admitted, start_in = n[3] ~= 2, 0
  for j = 1, count do
    if own_wait > DEFER_ABOVE and n[places_of[j] + 6] == 1 then outcomes[j], waits[j] = DEFERRED, 0 end
    local outcome = outcomes[j]
    if outcome == STARTS then
      if waits[j] > start_in then start_in = waits[j] end
    elseif outcome ~= FITS and outcome ~= DEFERRED then
      admitted = false
    end
  end
  a.admitted, a.start_in = admitted, start_in
end

-- === write ===

-- Takes what was admitted, or of a refused request only the message it was. Budgets that were repaired are kept so.
local function take(a, now)
  local n, admitted, held = a.n, a.admitted, {}
  for j = 1, count do
    local i, outcome, amount = places_of[j], outcomes[j], amounts[j]
    local key, limit, kind = n[i], n[i + 1], n[i + 2]
    local takes = (outcome == FITS or outcome == STARTS) and (admitted or n[i + 5] == MESSAGE)
    if kind == BUDGET then
      if takes then
        local sum = C[j] + amount
        C[j] = sum < EXACT and sum or EXACT
        held[#held + 1] = format('|%s %s %d %d', KEYS[key], LIMITS[limit], A[j], amount)
      end
      if takes or REPAIRED[j] then put_budget(key, limit, A[j], B[j], C[j], D[j], E[j], F[j], G[j], ENDS[j], now) end
    elseif takes and kind == BUCKET then
      local gain, unit = n[i + 8], n[i + 9]
      local level = charged(A[j], amount, unit)
      A[j] = level
      if n[i + 10] == 1 then C[j] = math.min(C[j] + math.min(amount * unit, EXACT), EXACT) end
      put_bucket(key, limit, level, B[j], C[j], n[i + 7] * unit, gain, unit)
    elseif takes then
      add_slot(A[j], B[j], math.floor((now + waits[j]) / 1000000), amount)
      put_window(key, limit, A[j], B[j], C[j], now)
    end
  end
  a.held = held
end

local function write_hold(a, now)
  if #a.held == 0 then return end
  local n, parts = a.n, concat(a.held)
  local lease = n[4]
  local deadline = now + lease
  local record = format(n[3] == 1 and '%d p%s' or '%d%s', deadline, parts)
  local fresh = read('HSETNX', a.holds, a.reservation, record)
  if fresh ~= 1 then
    replace_foreign(a.holds)
    -- A reservation may claim more later: its record then grows. A hold that is confirmed stays so.
    local hold = redis.call('HGET', a.holds, a.reservation)
    local before, rest = match(hold or '', '^(%d+)(.*)$')
    if before then
      deadline = math.max(tonumber(before), deadline)
      if n[3] ~= 1 then rest = string.gsub(rest, '^ p', '') end
      record = format('%d%s%s', deadline, rest, parts)
    end
    redis.call('HSET', a.holds, a.reservation, record)
  end
  redis.call('PEXPIRE', a.holds, format('%d', lease / 1000 + 2 * DAY_MS + SLACK_MS))
  a.indexed = index_hold(a.leases, a.customer, a.indexed, deadline, now)
end

-- === reply ===

local function decision(a, now)
  local n, admitted = a.n, a.admitted
  local reply = { pack('<ddddd', now, admitted and 1 or 0, admitted and a.start_in or 0, admitted and a.granted or -1, a.repaired) }
  for j = 1, count do
    local x, y, z = A[j], B[j], 0
    local kind = n[places_of[j] + 2]
    if kind == BUDGET then
      x, y, z = B[j], C[j], A[j]
    elseif kind == WINDOW then
      local starts = outcomes[j] == STARTS and waits[j] or 0
      x, y, z = sum_at(A[j], B[j], math.floor(now / 1000000)), empty_in(A[j], now), math.floor((now + starts) / 1000000)
    end
    reply[j + 1] = pack('<dddddd', outcomes[j], waits[j], x, y, z, G[j])
  end
  return concat(reply)
end

