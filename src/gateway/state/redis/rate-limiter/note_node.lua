-- Notes that a node lives, forgets those that were not heard of for long, and counts the rest.
--
-- KEYS nodes
-- ARGV node dead_after_ms
-- Reply {nodes, joined}: how many live, this one included; 1 when it was not among them until now

local nodes = KEYS[1]
local node, dead_after_ms = ARGV[1], tonumber(ARGV[2])

local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)

redis.call('ZREMRANGEBYSCORE', nodes, '-inf', string.format('%.0f', now_ms - dead_after_ms))
local joined = redis.call('ZADD', nodes, string.format('%.0f', now_ms), node)
redis.call('PEXPIRE', nodes, dead_after_ms)
return { redis.call('ZCARD', nodes), joined }
