-- Notes that there was a request of a session, which then goes on for as long as it may be idle.
--
-- KEYS session
-- ARGV
-- Reply 1 | 0: whether there is such a session

local session = KEYS[1]
local known = redis.call('HMGET', session, 'idle_ms', 'expires_at_ms')
if not known[2] then return 0 end
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('HSET', session, 'seen_at_ms', string.format('%.0f', now_ms))
if known[1] then
  redis.call('PEXPIREAT', session, string.format('%.0f', math.min(now_ms + known[1], tonumber(known[2]))))
end
return 1
