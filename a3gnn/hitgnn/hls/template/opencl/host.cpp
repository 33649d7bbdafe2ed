// The host program: runs a case on an OpenCL device by kernels.cl.
//
//   opencl_host CASE RESULTS KERNELS.cl    prints the device's name as a JSON object
//
// It builds kernels.cl from its text, as devices do that have a compiler, such as PoCL on the processor. An FPGA takes
// a binary instead, which a vendor's tools make of kernels/*.cpp.
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "../host/training_step.hpp"

namespace {

void check(cl_int status, const char* call) {
    if (status != CL_SUCCESS) fail(std::string(call) + " failed with OpenCL's error " + std::to_string(status));
}

std::string read_text(const std::string& path) {
    std::ifstream in(path.c_str());
    if (!in) fail("can't read " + path);
    return std::string(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
}

cl_device_id first_device() {
    cl_uint num_platforms = 0;
    if (clGetPlatformIDs(0, nullptr, &num_platforms) != CL_SUCCESS || num_platforms == 0) {
        fail("there is no OpenCL platform; PoCL runs on the processor (Debian: apt-get install pocl-opencl-icd)");
    }
    std::vector<cl_platform_id> platforms(num_platforms);
    check(clGetPlatformIDs(num_platforms, platforms.data(), nullptr), "clGetPlatformIDs");
    for (size_t i = 0; i < platforms.size(); ++i) {
        cl_device_id device;
        if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 1, &device, nullptr) == CL_SUCCESS) return device;
    }
    fail("no OpenCL platform has a device");
}

std::string define(const char* name, int value) {
    return std::string("-D ") + name + "=" + std::to_string(value) + " ";
}

std::string name_of(cl_device_id device) {
    std::vector<char> name(1024);
    check(clGetDeviceInfo(device, CL_DEVICE_NAME, name.size(), name.data(), nullptr), "clGetDeviceInfo");
    return name.data();
}

class OpenCL {
   public:
    explicit OpenCL(const std::string& kernels) : device_(first_device()) {
        size_t largest = 0;
        check(clGetDeviceInfo(device_, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof largest, &largest, nullptr),
              "clGetDeviceInfo");
        const size_t needed = UNITS > MULTIPLIERS ? UNITS : MULTIPLIERS;
        if (needed > largest) {
            fail("the device must run " + std::to_string(needed) + " work-items at once, and " + name() + " runs " +
                 std::to_string(largest) + "; generate with fewer units or multipliers");
        }
        cl_int status;
        context_ = clCreateContext(nullptr, 1, &device_, nullptr, nullptr, &status);
        check(status, "clCreateContext");
        queue_ = clCreateCommandQueue(context_, device_, 0, &status);
        check(status, "clCreateCommandQueue");
        const std::string text = read_text(kernels);
        const char* source = text.c_str();
        program_ = clCreateProgramWithSource(context_, 1, &source, nullptr, &status);
        check(status, "clCreateProgramWithSource");
        const std::string constants = define("UNITS", UNITS) + define("MULTIPLIERS", MULTIPLIERS) +
                                      define("ROWS", ROWS) + define("COLUMNS", COLUMNS);
        if (clBuildProgram(program_, 1, &device_, constants.c_str(), nullptr, nullptr) != CL_SUCCESS) {
            std::vector<char> log(1 << 16);
            clGetProgramBuildInfo(program_, device_, CL_PROGRAM_BUILD_LOG, log.size(), log.data(), nullptr);
            fail("kernels.cl does not compile: " + std::string(log.data()));
        }
    }

    OpenCL(const OpenCL&) = delete;

    ~OpenCL() {
        clReleaseProgram(program_);
        clReleaseCommandQueue(queue_);
        clReleaseContext(context_);
    }

    std::string name() const { return name_of(device_); }

    void at(unsigned, const char*) {}

    void aggregate(const Matrix& rows, const Edges& edges, Matrix& sums) {
        Call call(*this, "aggregate");
        call.in(rows.words);
        call.in(edges.edges);
        call.in(edges.runs);
        call.out(sums.words);
        call.number(unsigned(edges.runs.size()));
        call.number(sums.rows);
        call.number(sums.stride);
        call.run({size_t(UNITS) * sums.stride}, {UNITS});
    }

    void update(const Matrix& left, bool transposed, const Matrix& top, const Matrix* bias, bool rectified,
                Matrix& out) {
        Call call(*this, "update");
        call.in(left.words);
        call.in(top.words);
        call.in(bias ? bias->words : std::vector<Word>(1));
        call.out(out.words);
        call.number(out.rows);
        call.number(transposed ? left.rows : left.columns);
        call.number(out.columns);
        call.number(left.stride * LANES);
        call.number(top.stride * LANES);
        call.number(out.stride * LANES);
        call.number(transposed);
        call.number(bias != nullptr);
        call.number(rectified);
        call.run({whole(out.columns, COLUMNS), whole(out.rows, ROWS)}, {COLUMNS, ROWS});
    }

    void activation_gradient(const Matrix& gradient, const Matrix& out, bool rectified, Matrix& gated, Matrix& bias) {
        Call call(*this, "activation_gradient");
        call.in(gradient.words);
        call.in(out.words);
        call.out(gated.words);
        call.out(bias.words);
        call.number(out.rows);
        call.number(out.stride);
        call.number(rectified);
        call.run({out.stride}, {});
    }

   private:
    static size_t whole(unsigned total, unsigned block) { return (total + block - 1) / block * block; }

    // A call of a kernel: its arguments in turn, then its run, after which what it wrote is back in host memory.
    class Call {
       public:
        Call(OpenCL& device, const char* kernel) : device_(device) {
            cl_int status;
            kernel_ = clCreateKernel(device.program_, kernel, &status);
            check(status, "clCreateKernel");
        }

        Call(const Call&) = delete;

        ~Call() {
            for (size_t i = 0; i < buffers_.size(); ++i) clReleaseMemObject(buffers_[i]);
            clReleaseKernel(kernel_);
        }

        template <typename T>
        void in(const std::vector<T>& values) {
            buffer(values.empty() ? std::vector<T>(1) : values);
        }

        void out(std::vector<Word>& values) {
            written_.push_back(&values);
            written_buffers_.push_back(buffer(values));
        }

        void number(unsigned value) {
            check(clSetKernelArg(kernel_, next_++, sizeof(cl_uint), &value), "clSetKernelArg");
        }

        void run(const std::vector<size_t>& items, const std::vector<size_t>& group) {
            check(clEnqueueNDRangeKernel(device_.queue_, kernel_, cl_uint(items.size()), nullptr, items.data(),
                                         group.empty() ? nullptr : group.data(), 0, nullptr, nullptr),
                  "clEnqueueNDRangeKernel");
            for (size_t i = 0; i < written_.size(); ++i) {
                check(clEnqueueReadBuffer(device_.queue_, written_buffers_[i], CL_TRUE, 0,
                                          written_[i]->size() * sizeof(Word), written_[i]->data(), 0, nullptr, nullptr),
                      "clEnqueueReadBuffer");
            }
        }

       private:
        template <typename T>
        cl_mem buffer(const std::vector<T>& values) {
            cl_int status;
            cl_mem made = clCreateBuffer(device_.context_, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                         values.size() * sizeof(T), const_cast<T*>(values.data()), &status);
            check(status, "clCreateBuffer");
            buffers_.push_back(made);
            check(clSetKernelArg(kernel_, next_++, sizeof made, &made), "clSetKernelArg");
            return made;
        }

        OpenCL& device_;
        cl_kernel kernel_;
        cl_uint next_ = 0;
        std::vector<cl_mem> buffers_, written_buffers_;
        std::vector<std::vector<Word>*> written_;
    };

    cl_device_id device_;
    cl_context context_;
    cl_command_queue queue_;
    cl_program program_;
};

}  // namespace

int main(int count, char** arguments) {
    if (count != 4) {
        std::fprintf(stderr, "usage: opencl_host CASE RESULTS KERNELS.cl\n");
        return 2;
    }
    const Case task = read_case(arguments[1]);
    OpenCL device(arguments[3]);
    write_results(arguments[2], task, train_step(task, device));
    std::printf("{\"device\": \"%s\"}\n", device.name().c_str());
    return 0;
}
