-- Puts an API key in the place of the one with its id, unless any has changed since the version was read.
--
-- KEYS all version changes
-- ARGV id key count changed_at
-- Reply 1 | 0: whether this call replaced it

local version = redis.call('HMGET', KEYS[2], 'count', 'changed_at')
if (version[1] or '0') ~= ARGV[3] or (version[2] or '0') ~= ARGV[4] then return 0 end
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end

redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
changed(KEYS[2], KEYS[3], ARGV[1])
return 1
