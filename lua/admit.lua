-- Decides all claims of a request in one step: read all, check all, write all or (almost) nothing. The twin of limit/decide.rs.
--
-- KEYS   1     holds of the customer (hash: reservation -> hold record)
--        2     customers with holds (sorted set: customer -> earliest deadline of a hold, or before it)
--        3..   the hashes the claims live in: first those tagged with the customer, then the shared ones
-- ARGV   now in microseconds (0: this server's time), reservation id, customer, lease in microseconds,
--        mode ('t' take; 'p' take for now: unless it is confirmed, sweep.lua gives it back; 'r' refused already in another call),
--        microseconds for which the request waits for limits that are claimed in another call,
--        elastic claim: fixed, per token (pico-dollars; 0: not elastic), wanted, floor (output caps),
--        number of claims, then for each:
--          key index, limit, measure ('m' message, '$' money, '-' other), ceiling ('1' or '0'), amount, max_wait in microseconds,
--          'b' capacity gain unit | 'w' limit | 'm' cap and four period starts in seconds
-- Reply  integers: now, admitted (1 or 0), start_in in microseconds, granted output cap (-1: as wanted), then for each claim:
--          outcome, its wait in microseconds, used, held, remaining, reset_in in microseconds, booked
--
-- Hold record: <deadline>|<key> <limit> <period start> <amount>|...   one part per budget: all that sweep.lua needs to book it.
-- Between deadline and parts renew.lua adds a space and the nano-dollars metered so far, where it knows them. A space and `p` there
-- mark a hold that is not confirmed; renew.lua confirms it.
-- A reservation that claims no budget leaves none: there would be nothing to book.

local DEFER_ABOVE = 1000000             -- whoever waits longer for its own limits claims the ceiling at its start time

-- read all

local now = clock(number())
local reservation, customer = text(), text()
local lease = number()
local mode, waits = text(), number()
local elastic = {}
elastic.fixed, elastic.per_token, elastic.wanted, elastic.floor = number(), number(), number(), number()

local claims, budgets = {}, 0
for i = 1, number() do
  local c = {}
  c.key, c.limit, c.measure, c.ceiling, c.amount, c.max_wait = number(), text(), text(), text() == '1', number(), number()
  rule(c)
  claims[i] = c
  if c.kind == 'm' then budgets = budgets + 1 end
end
local states = read_states(claims)
local hold = budgets > 0 and read('HGET', KEYS[1], reservation)
local indexed = budgets > 0 and read('ZSCORE', KEYS[2], customer)

-- check all

for _, c in ipairs(claims) do
  open(c, states, now)
  c.outcome, c.wait = c:fit(now, c.amount, c.max_wait)
end

-- The largest output cap, at most the wanted one, whose cost is within `room` nano-dollars.
local function affordable(room)
  if room >= 9007199254741 then return elastic.wanted end       -- more than any elastic claim costs (2^53 pico-dollars)
  local left = room * 1000 - elastic.fixed                      -- below 2^53
  if left < 0 then return nil end
  return min(floor(left / elastic.per_token), elastic.wanted)
end

-- Lowers the dollar claims to the largest output cap that every dollar limit affords, if one of them is spent too far.
local function shrink()
  local granted, below_floor = elastic.wanted, false
  for _, c in ipairs(claims) do
    if c.measure == '$' and c.outcome == EXHAUSTED then
      local room = max(c.cap - c.current.spent, 0)
      local tokens = affordable(max(room - c.current.held, 0))
      if tokens and tokens >= elastic.floor then
        granted = min(granted, tokens)
        c.outcome = FITS        -- should another limit refuse, that one is the cause: this one affords a shorter answer
      else
        below_floor = true
        -- Without the requests in flight the floor would fit: their settlement may make room.
        tokens = affordable(room)
        if tokens and tokens >= elastic.floor then c.outcome = IN_FLIGHT end
      end
    end
  end
  if below_floor or granted == elastic.wanted then return -1 end
  local amount = ceil((elastic.fixed + elastic.per_token * granted) / 1000)     -- at most 2^53 pico-dollars, as `wanted` costs
  for _, c in ipairs(claims) do
    if c.measure == '$' then
      c.amount = amount
      c.outcome = c.current.spent + c.current.held + amount <= c.cap and FITS or IN_FLIGHT
    end
  end
  return granted
end

local granted = elastic.per_token > 0 and shrink() or -1

local own_wait = waits
for _, c in ipairs(claims) do
  if not c.ceiling and c.outcome == STARTS then own_wait = max(own_wait, c.wait) end
end

local admitted, start_in = mode ~= 'r', 0
for _, c in ipairs(claims) do
  if c.ceiling and own_wait > DEFER_ABOVE then c.outcome, c.wait = DEFERRED, 0 end
  if c.outcome == STARTS then
    start_in = max(start_in, c.wait)
  elseif c.outcome ~= FITS and c.outcome ~= DEFERRED then
    admitted = false
  end
end

-- write all: what was admitted, or of a refused request only the message it was

local taken, held = {}, {}
for _, c in ipairs(claims) do
  local passes = c.outcome == FITS or c.outcome == STARTS
  local wait = c.outcome == STARTS and c.wait or 0
  if passes and (admitted or c.measure == 'm') then
    c:take(c.amount, now + wait)
    taken[#taken + 1] = c
    if c.kind == 'm' then
      held[#held + 1] = format('|%s %s %.0f %.0f', KEYS[c.key], c.limit, c.current.start, c.amount)
    end
  end
end
write_states(taken, now)

if #held > 0 then
  -- A reservation may claim more later: its record then grows.
  local deadline, before = match(hold or '', '^(%d+)(.*)$')
  deadline = max(tonumber(deadline or 0), now + lease)
  if mode == 'p' then
    before = before or ' p'     -- a hold that is confirmed stays so
  elseif before then
    before = string.gsub(before, '^ p', '')
  end
  replace_foreign(KEYS[1])
  redis.call('HSET', KEYS[1], reservation, format('%.0f', deadline) .. (before or '') .. concat(held))
  keep(KEYS[1], ceil(lease / 1000) + 2 * DAY_MS)
  index_hold(KEYS[2], customer, indexed, deadline, now)
end

-- reply

local reply = { now, admitted and 1 or 0, admitted and start_in or 0, admitted and granted or -1 }
for _, c in ipairs(claims) do
  local used, held_now, remaining, reset_in, booked = c:stands(now, c.outcome == STARTS and c.wait or 0)
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = c.outcome, c.wait, used, held_now
  reply[n + 5], reply[n + 6], reply[n + 7] = remaining, reset_in, booked
end
return reply
