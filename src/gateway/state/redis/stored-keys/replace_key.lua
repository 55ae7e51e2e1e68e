-- Puts an API key in the place of the one with its id, unless any has changed since the version was read.
--
-- KEYS all version
-- ARGV id key count changed_at
-- Reply 1 | 0: whether this call replaced it

local version = redis.call('HMGET', KEYS[2], 'count', 'changed_at')
if (version[1] or '0') ~= ARGV[3] or (version[2] or '0') ~= ARGV[4] then return 0 end
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end

redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
local time = redis.call('TIME')
redis.call('HINCRBY', KEYS[2], 'count', 1)
redis.call('HSET', KEYS[2], 'changed_at', time[1] .. '.' .. time[2])
redis.pcall('PUBLISH', 'lk:jobs', 'settings')
return 1
