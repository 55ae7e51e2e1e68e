-- Notes that money of a dead node was recorded, unless it has come to something else meanwhile.
--
-- KEYS lost
-- ARGV token spend
-- Reply 1

local told, rest, spend = string.match(redis.call('HGET', KEYS[1], ARGV[1]) or '', '^(%d) (%d %S+ %d+ (%d+) .*)$')
if told == '0' and spend == ARGV[2] then redis.call('HSET', KEYS[1], ARGV[1], '1 ' .. rest) end
return 1
