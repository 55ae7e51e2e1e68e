-- Keeps an API key, unless there is one with its id.
--
-- KEYS all version
-- ARGV id key
-- Reply 1 | 0: whether this call kept it
--
-- The version names the moment besides the count: after a failover that lost a change the next one has the same count,
-- and is another change.

if redis.call('HSETNX', KEYS[1], ARGV[1], ARGV[2]) == 0 then return 0 end
local time = redis.call('TIME')
redis.call('HINCRBY', KEYS[2], 'count', 1)
redis.call('HSET', KEYS[2], 'changed_at', time[1] .. '.' .. time[2])
redis.pcall('PUBLISH', 'lk:jobs', 'settings')
return 1
