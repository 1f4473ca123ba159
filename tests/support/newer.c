/* A module with a type and commands that no proxy knows: a number, NEWER.ADD and NEWER.GET. The functions of Redis are
 * declared here as far as they are used (redismodule.h). */
#include <stdint.h>
#include <stddef.h>

typedef struct Ctx Ctx;
typedef struct Key Key;
typedef struct Str Str;
typedef struct Io Io;
typedef struct Type Type;

static int (*GetApi)(const char *, void *);
static void (*SetModuleAttribs)(Ctx *, const char *, int, int);
static int (*CreateCommand)(Ctx *, const char *, int (*)(Ctx *, Str **, int), const char *, int, int, int);
static Type *(*CreateDataType)(Ctx *, const char *, int, void *);
static void (*AutoMemory)(Ctx *);
static void *(*Alloc)(size_t);
static void (*Free)(void *);
static Key *(*OpenKey)(Ctx *, Str *, int);
static int (*KeyType)(Key *);
static Type *(*ModuleTypeGetType)(Key *);
static void *(*ModuleTypeGetValue)(Key *);
static int (*ModuleTypeSetValue)(Key *, Type *, void *);
static int (*StringToLongLong)(const Str *, long long *);
static int (*ReplyWithLongLong)(Ctx *, long long);
static int (*ReplyWithError)(Ctx *, const char *);
static int (*ReplyWithNull)(Ctx *);
static int (*WrongArity)(Ctx *);
static void (*SaveSigned)(Io *, int64_t);
static int64_t (*LoadSigned)(Io *);

static Type *number;

static void *load(Io *io, int version) {
    (void)version;
    int64_t *value = Alloc(sizeof(*value));
    *value = LoadSigned(io);
    return value;
}

static void save(Io *io, void *value) { SaveSigned(io, *(int64_t *)value); }

static void rewrite(Io *io, Str *key, void *value) {
    (void)io, (void)key, (void)value;
}

static void drop(void *value) { Free(value); }

/* The number under a key; *is_wrong: it holds something else. */
static int64_t *found(Key *key, int *is_wrong) {
    int is_empty = KeyType(key) == 0;
    *is_wrong = !is_empty && ModuleTypeGetType(key) != number;
    return is_empty || *is_wrong ? NULL : ModuleTypeGetValue(key);
}

static const char *WRONG_TYPE = "WRONGTYPE Operation against a key holding the wrong kind of value";

static int add(Ctx *ctx, Str **argv, int argc) {
    long long more;
    int is_wrong;
    if (argc != 3) return WrongArity(ctx);
    AutoMemory(ctx);
    if (StringToLongLong(argv[2], &more)) return ReplyWithError(ctx, "ERR no number");
    Key *key = OpenKey(ctx, argv[1], 3);
    int64_t *value = found(key, &is_wrong);
    if (is_wrong) return ReplyWithError(ctx, WRONG_TYPE);
    if (!value) {
        value = Alloc(sizeof(*value));
        *value = 0;
        ModuleTypeSetValue(key, number, value);
    }
    *value += more;
    return ReplyWithLongLong(ctx, *value);
}

static int get(Ctx *ctx, Str **argv, int argc) {
    int is_wrong;
    if (argc != 2) return WrongArity(ctx);
    AutoMemory(ctx);
    Key *key = OpenKey(ctx, argv[1], 1);
    int64_t *value = key ? found(key, &is_wrong) : (is_wrong = 0, (int64_t *)NULL);
    if (is_wrong) return ReplyWithError(ctx, WRONG_TYPE);
    return value ? ReplyWithLongLong(ctx, *value) : ReplyWithNull(ctx);
}

#define FIND(name) GetApi("RedisModule_" #name, (void *)&name)

int RedisModule_OnLoad(Ctx *ctx) {
    *(void **)&GetApi = ((void **)ctx)[0];
    FIND(SetModuleAttribs), FIND(CreateCommand), FIND(CreateDataType), FIND(AutoMemory), FIND(Alloc), FIND(Free);
    FIND(OpenKey), FIND(KeyType), FIND(ModuleTypeGetType), FIND(ModuleTypeGetValue), FIND(ModuleTypeSetValue);
    FIND(StringToLongLong), FIND(ReplyWithLongLong), FIND(ReplyWithError), FIND(ReplyWithNull), FIND(WrongArity);
    FIND(SaveSigned), FIND(LoadSigned);
    SetModuleAttribs(ctx, "newer", 1, 1);
    struct {
        uint64_t version;
        void *load, *save, *rewrite, *usage, *digest, *drop;
    } methods = {1, (void *)load, (void *)save, (void *)rewrite, NULL, NULL, (void *)drop};
    number = CreateDataType(ctx, "newertype", 0, &methods);
    return !number || CreateCommand(ctx, "newer.add", add, "write deny-oom", 1, 1, 1) ||
           CreateCommand(ctx, "newer.get", get, "readonly fast", 1, 1, 1);
}
