package main

import (
	"context"
	"strconv"
	"time"

	goredis8 "github.com/go-redis/redis/v8"
	"github.com/gomodule/redigo/redis"
	goredis9 "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

type goredis9Driver struct{ *goredis9.Client }

func plainGoredis9(address string) (library, error) {
	return plainLibrary{goredis9Driver{dialGoredis9(address)}}, nil
}

func (d goredis9Driver) setNX(ctx context.Context, key, token string, ttl time.Duration) (bool, error) {
	return d.SetNX(ctx, key, token, ttl).Result()
}

func (d goredis9Driver) eval(ctx context.Context, script, key string, arguments ...string) (int64, error) {
	return goredis9.NewScript(script).Run(ctx, d.Client, []string{key}, anys(arguments)...).Int64()
}

type goredis8Driver struct{ *goredis8.Client }

func plainGoredis8(address string) (library, error) {
	return plainLibrary{goredis8Driver{dialGoredis8(address)}}, nil
}

func (d goredis8Driver) setNX(ctx context.Context, key, token string, ttl time.Duration) (bool, error) {
	return d.SetNX(ctx, key, token, ttl).Result()
}

func (d goredis8Driver) eval(ctx context.Context, script, key string, arguments ...string) (int64, error) {
	return goredis8.NewScript(script).Run(ctx, d.Client, []string{key}, anys(arguments)...).Int64()
}

type redigoDriver struct{ *redis.Pool }

func plainRedigo(address string) (library, error) {
	return plainLibrary{redigoDriver{dialRedigo(address)}}, nil
}

func (d redigoDriver) setNX(ctx context.Context, key, token string, ttl time.Duration) (bool, error) {
	connection, err := d.GetContext(ctx)
	if err != nil {
		return false, err
	}
	defer connection.Close()
	set := redis.Args{}.Add(key, token, "NX")
	if ttl > 0 {
		set = set.Add("PX", milliseconds(ttl))
	}
	_, err = redis.String(redis.DoContext(connection, ctx, "SET", set...))
	return yes(err, redis.ErrNil)
}

func (d redigoDriver) eval(ctx context.Context, script, key string, arguments ...string) (int64, error) {
	connection, err := d.GetContext(ctx)
	if err != nil {
		return 0, err
	}
	defer connection.Close()
	return redis.Int64(redis.NewScript(1, script).DoContext(ctx, connection, redis.Args{}.Add(key).AddFlat(arguments)...))
}

type rueidisDriver struct{ rueidis.Client }

func plainRueidis(address string) (library, error) {
	client, err := dialRueidis(address)
	return plainLibrary{rueidisDriver{client}}, err
}

func (d rueidisDriver) setNX(ctx context.Context, key, token string, ttl time.Duration) (bool, error) {
	set := d.B().Set().Key(key).Value(token).Nx()
	command := set.Build
	if ttl > 0 {
		command = set.Px(ttl).Build
	}
	err := d.Do(ctx, command()).Error()
	return yes(err, rueidis.Nil)
}

func (d rueidisDriver) eval(ctx context.Context, script, key string, arguments ...string) (int64, error) {
	return rueidis.NewLuaScript(script).Exec(ctx, d.Client, []string{key}, arguments).AsInt64()
}

func milliseconds(ttl time.Duration) string {
	return strconv.FormatInt(ttl.Milliseconds(), 10)
}

func anys(values []string) []any {
	all := make([]any, len(values))
	for i, value := range values {
		all[i] = value
	}
	return all
}
