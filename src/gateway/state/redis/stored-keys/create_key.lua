-- Keeps an API key, unless there is one with its id.
--
-- KEYS all version changes
-- ARGV id key
-- Reply 1 | 0: whether this call kept it

if redis.call('HSETNX', KEYS[1], ARGV[1], ARGV[2]) == 0 then return 0 end
changed(KEYS[2], KEYS[3], ARGV[1])
return 1
