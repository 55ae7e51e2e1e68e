-- Begins a session of the console, unless there is one with its id.
--
-- KEYS session
-- ARGV key_sha256 csrf_token ttl_ms
-- Reply 1 | 0: whether this call began it

local session = KEYS[1]
if redis.call('EXISTS', session) == 1 then return 0 end
local time = redis.call('TIME')
local until_ms = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[3])
redis.call('HSET', session, 'key_sha256', ARGV[1], 'csrf_token', ARGV[2], 'expires_at_ms', until_ms)
redis.call('PEXPIREAT', session, until_ms)
return 1
