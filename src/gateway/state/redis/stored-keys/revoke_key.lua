-- Revokes an API key; the first time counts.
--
-- KEYS all revoked version changes
-- ARGV id
-- Reply {} | {key, revoked_at_ms}: there is none, or the key as it is then
--
-- The moment is kept beside the key: written back through Lua its JSON would lose empty lists and large numbers.

local key = redis.call('HGET', KEYS[1], ARGV[1])
if not key then return {} end

local time = redis.call('TIME')
local now_ms = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
if redis.call('HSETNX', KEYS[2], ARGV[1], now_ms) == 1 then changed(KEYS[3], KEYS[4], ARGV[1]) end
return { key, redis.call('HGET', KEYS[2], ARGV[1]) }
