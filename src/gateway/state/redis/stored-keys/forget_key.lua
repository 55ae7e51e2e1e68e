-- Deletes the record of an API key that has expired.
--
-- KEYS all revoked
-- ARGV id
-- Reply 1 | 0: whether this call deleted it

local key = redis.call('HGET', KEYS[1], ARGV[1])
if not key then return 0 end

-- A key that never expires has null there, which is no number.
local expires_at_ms = cjson.decode(key).expiresAtMs
if type(expires_at_ms) ~= 'number' then return 0 end

local time = redis.call('TIME')
if expires_at_ms > time[1] * 1000 + math.floor(time[2] / 1000) then return 0 end
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[1])
return 1
