-- In front of admit.lua: nothing is decided by plans or overrides that are not in force any more.
--
-- KEYS   the last two: which overrides of the customer are in force, which plans (numbers; absent: 0)
-- ARGV   the last two: the same, as the gateway knows them
-- Reply  integers where they differ: -1, and both numbers that are in force; nothing is claimed

do
  local said, plans = read('GET', KEYS[#KEYS - 1]) or '0', read('GET', KEYS[#KEYS]) or '0'
  if said ~= ARGV[#ARGV - 1] or plans ~= ARGV[#ARGV] then return { -1, tonumber(said) or 0, tonumber(plans) or 0 } end
end

