-- How limits stand, what each would answer, and what the customer's reservations hold. Reads only.
--
-- KEYS   1..l     what the claims live in (strings); behind them the keys that the admission names by their place
-- ARGV   numbers: now in microseconds (0: this server's time), l, the limits as call.lua reads them, an admission as claims.lua reads it,
--          mode 2; then its texts
-- Reply  numbers: now, and a decision as claims.lua has it; then reservation and hold record, again and again

local head = numbers(2)
local now = clock(head[1])
load(head[2], head[2])
read_limits(now)
local asked = read_admission()
decide(asked, now)
answers[1], answered = now, 1
answer(now)
return { packed_answers(), read('HGETALL', asked.holds) or {} }
