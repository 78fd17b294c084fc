-- What admit.lua, replace.lua and look.lua share: a request's claims, read, decided in one step, and taken. The twin of limit/decide.rs.
--
-- An admission is two texts, the reservation id and the customer, and among the numbers:
--   place of the key of the customer's holds, of the index of leases,
--   mode (0 take; 1 take for now: unless it is confirmed, sweep.lua gives it back; 2 refused already in another call),
--   lease in microseconds, microseconds for which the request waits for limits that are claimed in another call,
--   elastic claim: fixed, per token (pico-dollars; 0: not elastic), wanted, floor (output caps),
--   number of claims, then of each its limit (see call.lua) and the amount.
-- A decision is numbers behind those that were answered before:
--   2 admitted, all fits at once as it was asked; then how each limit stands: 'b' level | 'm' spent, held, generation
--     (levels are of the present, and budgets are in the present period)
--   1 admitted or 0 refused, start_in in microseconds, granted output cap (-1: as wanted), how many budgets were repaired; then for each
--     claim its outcome, its wait in microseconds, and how its limit stands:
--       'b' level, at | 'w' used, microseconds until it is empty, second it is booked in | 'm' spent, held, start, generation
--
-- Hold record: <deadline>|<key> <limit> <period start> <amount>|...   one part per budget: all that sweep.lua needs to book it.
-- Between deadline and parts renew.lua adds a space and the nano-dollars metered so far, where it knows them. A space and `p` there
-- mark a hold that is not confirmed; renew.lua confirms it.
-- A reservation that claims no budget leaves none: there would be nothing to book.

local DEFER_ABOVE = 1000000             -- whoever waits longer for its own limits claims the ceiling at its start time
local MESSAGE, MONEY = 1, 2

-- Where the first claim stands among an admission's numbers.
local FIRST = 11

-- Of the claims under decision, by their order: limit, amount, outcome, wait. Lists of their own, used again for each admission.
local count, claimed, amounts, outcomes, waits = 0, {}, {}, {}, {}
-- The decision on them.
local admitted, start_in, granted, repaired = false, 0, -1, 0

-- === read ===

local function read_admission()
  local n = numbers(FIRST - 1)
  return {
    n = n, claims = numbers(2 * n[10]), holds = KEYS[n[1]], leases = KEYS[n[2]], reservation = text(), customer = text(),
    record = false, deadline = 0,
  }
end

-- === hold records ===

-- The text of an amount. Most budgets of a request hold the same.
local spelled, spelling
local function digits(amount)
  if amount ~= spelled then spelled, spelling = amount, format('%d', amount) end
  return spelling
end

-- What is in front of the amount in a part about a budget.
local function part_of(limit)
  local rule, number, start = limit[3], limit[2], limit[6]
  if rule[13] ~= number or rule[14] ~= start then
    rule[13], rule[14], rule[15] = number, start, format(' %s %d ', LIMITS[number], start)
  end
  local part = '|' .. KEYS[limit[1]] .. rule[15]
  limit[15] = part
  return part
end

-- By lease and mode: until when it lasts, as text with what marks the mode, and for how long holds are kept.
local lasts, lives = { [0] = {}, {}, {} }, {}

-- The parts of a record, from the second on. Makes the record of a hold.
local parts = {}
local function record_of(a, last, now)
  local mode, lease = a.n[3], a.n[4]
  local begins = lasts[mode][lease]
  if not begins then
    begins = format(mode == 1 and '%d p' or '%d', now + lease)
    lasts[mode][lease], lives[lease] = begins, format('%d', lease / 1000 + 2 * DAY_MS + SLACK_MS)
  end
  parts[1] = begins
  a.record, a.deadline = concat(parts, '', 1, last), now + lease
end

-- === what fits at once ===

-- Takes an admission of which everything fits as it was asked, at once, and answers it. Most are such; of others nothing is taken.
local function take_at_once(a, now)
  local n, claims = a.n, a.claims
  local last = 2 * n[10]
  if n[3] == 2 or n[5] > DEFER_ABOVE or twins then return false end
  for i = 1, last, 2 do
    local limit = limits[claims[i]]
    local rule = limit[3]
    local kind = rule[1]
    if limit[4] == CLOSED then open(limit, now) end
    if kind == BUCKET then
      -- The product is at most what a full bucket has, or it does not fit.
      if claims[i + 1] * rule[8] > limit[6] or limit[7] ~= now then return false end
    elseif kind == WINDOW or limit[7] + claims[i + 1] + limit[8] > rule[6] or limit[13] or limit[6] ~= rule[11] then
      return false
    end
  end
  local at, held = answered + 1, 1
  answers[at] = 2
  for i = 1, last, 2 do
    local limit, amount = limits[claims[i]], claims[i + 1]
    local rule = limit[3]
    if rule[1] == BUCKET then
      local taken = amount * rule[8]
      local level = limit[6] - taken
      if rule[9] == 1 then
        local mirrored = limit[8] + taken
        limit[8] = mirrored < EXACT and mirrored or EXACT
      end
      at = at + 1
      limit[6], answers[at] = level, level
    else
      local sum = limit[8] + amount
      parts[held + 1], parts[held + 2] = limit[15] or part_of(limit), digits(amount)
      answers[at + 1], answers[at + 2], answers[at + 3] = limit[7], sum, limit[12]
      limit[8], held, at = sum, held + 2, at + 3
    end
    limit[4], limit[5] = CHANGED, false
  end
  answered = at
  if held > 1 then record_of(a, held, now) end
  return true
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
    local limit = claimed[j]
    local rule = limit[3]
    if rule[3] == MONEY and outcomes[j] == EXHAUSTED then
      local room, held = math.max(rule[6] - limit[7], 0), limit[8]
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
    local limit = claimed[j]
    local rule = limit[3]
    if rule[3] == MONEY then
      amounts[j] = amount
      outcomes[j] = limit[7] + limit[8] + amount <= rule[6] and FITS or IN_FLIGHT
    end
  end
  return granted
end

-- Decides all claims over the limits as they are; takes nothing.
local function decide(a, now)
  local n, claims, i, own_wait, exhausted = a.n, a.claims, 1, a.n[5], false
  count, admitted, start_in, granted, repaired = n[10], n[3] ~= 2, 0, -1, 0
  for j = 1, count do
    local limit, amount, outcome, wait = limits[claims[i]], claims[i + 1], FITS, 0
    local rule = limit[3]
    local kind = rule[1]
    if limit[4] == CLOSED or twins then open(limit, now) end
    if kind == BUCKET then
      local missing = amount * rule[8] - limit[6]   -- the product is at most what a full bucket has, or it never fits
      if amount > rule[6] then
        outcome = NEVER
      elseif missing > 0 then
        if rule[7] == 0 then
          outcome = NEVER
        else
          -- It fills from the time of its level on, which a clock that lags has yet to reach.
          wait = missing / rule[7]
          wait = wait + -wait % 1
          if limit[7] > now then wait = wait + (limit[7] - now) end
          outcome = STARTS
        end
      end
    elseif kind == BUDGET then
      -- Sums above 2^53 may be rounded, but not below 2^53, and no cap is larger.
      local with, cap = limit[7] + amount, rule[6]
      if with > cap then
        outcome, exhausted = EXHAUSTED, true
      elseif with + limit[8] > cap then
        outcome = IN_FLIGHT
      end
      if limit[13] then repaired = repaired + 1 end
    elseif amount > rule[6] then
      outcome = NEVER
    else
      wait = math.max(first_fit(limit[6], limit[7], rule[6], math.floor(now / 1000000), amount) * 1000000 - now, 0)
      if wait > 0 then outcome = STARTS end
    end
    if outcome == STARTS then
      local patience = rule[2]
      if wait > patience then
        outcome, wait = REFUSED, wait - patience
      elseif wait > own_wait and rule[4] == 0 then
        own_wait = wait
      end
    end
    claimed[j], amounts[j], outcomes[j], waits[j] = limit, amount, outcome, wait
    i = i + 2
  end
  if exhausted and n[7] > 0 then granted = shrink(n) end

  for j = 1, count do
    if own_wait > DEFER_ABOVE and claimed[j][3][4] == 1 then outcomes[j], waits[j] = DEFERRED, 0 end
    local outcome = outcomes[j]
    if outcome == STARTS then
      if waits[j] > start_in then start_in = waits[j] end
    elseif outcome ~= FITS and outcome ~= DEFERRED then
      admitted = false
    end
  end
end

-- === write ===

-- Takes what was admitted, or of a refused request only the message it was. Budgets that were repaired are kept so.
local function take(a, now)
  local held = 1
  for j = 1, count do
    local limit, outcome, amount = claimed[j], outcomes[j], amounts[j]
    local rule = limit[3]
    local kind = rule[1]
    if (outcome == FITS or outcome == STARTS) and (admitted or rule[3] == MESSAGE) then
      if kind == BUCKET then
        local unit = rule[8]
        limit[6] = charged(limit[6], amount, unit)
        if rule[9] == 1 then limit[8] = math.min(limit[8] + math.min(amount * unit, EXACT), EXACT) end
      elseif kind == BUDGET then
        limit[8], limit[13] = math.min(limit[8] + amount, EXACT), false
        parts[held + 1], parts[held + 2] = limit[15] or part_of(limit), digits(amount)
        held = held + 2
      else
        add_slot(limit[6], limit[7], math.floor((now + waits[j]) / 1000000), amount)
      end
      limit[4], limit[5] = CHANGED, false
    elseif kind == BUDGET and limit[13] then
      limit[4], limit[5], limit[13] = CHANGED, false, false
    end
    if twins and limit[4] == CHANGED then close(limit, now) end
  end
  if held > 1 then record_of(a, held, now) end
end

-- Writes the hold of what was taken. `indexed` is when a sweeper would look at the customer anyway; when it looks then.
local function write_hold(a, indexed, now)
  local holds, deadline, record = a.holds, a.deadline, a.record
  if try('HSETNX', holds, a.reservation, record) ~= 1 then
    -- Of another type; or a reservation claims more, and its record grows. A hold that is confirmed stays so.
    local hold = read('HGET', holds, a.reservation)
    replace_foreign(holds)
    local before, rest = match(hold or '', '^(%d+)(.*)$')
    if before then
      deadline = math.max(tonumber(before), deadline)
      if a.n[3] ~= 1 then rest = string.gsub(rest, '^ p', '') end
      record = format('%d%s%s', deadline, rest, sub(record, find(record, '|', 1, true), -1))
    end
    call('HSET', holds, a.reservation, record)
  end
  call('PEXPIRE', holds, lives[a.n[4]])
  return index_hold(a.leases, a.customer, indexed, deadline, now)
end

-- === reply ===

local function answer(now)
  local at = answered + 4
  answers[at - 3], answers[at - 2] = admitted and 1 or 0, admitted and start_in or 0
  answers[at - 1], answers[at] = admitted and granted or -1, repaired
  for j = 1, count do
    local limit = claimed[j]
    local kind = limit[3][1]
    answers[at + 1], answers[at + 2] = outcomes[j], waits[j]
    if kind == BUCKET then
      answers[at + 3], answers[at + 4] = limit[6], limit[7]
      at = at + 4
    elseif kind == BUDGET then
      answers[at + 3], answers[at + 4], answers[at + 5], answers[at + 6] = limit[7], limit[8], limit[6], limit[12]
      at = at + 6
    else
      local starts = outcomes[j] == STARTS and waits[j] or 0
      answers[at + 3], answers[at + 4] = sum_at(limit[6], limit[7], math.floor(now / 1000000)), empty_in(limit[6], now)
      answers[at + 5] = math.floor((now + starts) / 1000000)
      at = at + 5
    end
  end
  answered = at
end
